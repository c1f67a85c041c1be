"""Videos of trained policies, and plots of their learning curves."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import imageio_ffmpeg
import numpy as np

from agents.analysis import plotting
from agents.policies import playing
from agents.terminal import interrupts
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import files
from agents.training import storage

# Frames per second where the environment does not tell.
DEFAULT_FPS = 30

CURVE = 'learning_curve.png'

# Each writes a video at the same time.
MOST_AGENTS = 1_000


def visualize(
    logdir: str | pathlib.Path,
    outdir: str | pathlib.Path | None = None,
    num_agents: int = 1,
    num_episodes: int = 1,
    checkpoint: int | str | None = None,
    config: AttrDict | None = None,
    env_processes: bool | None = None,
    changes: Sequence[str] = (),
    env: Any = None,
    trust: bool = False,
    written: Callable[[pathlib.Path, float | None], None] | None = None,
) -> list[pathlib.Path]:
    """Write videos of episodes with the most probable actions, and a learning curve.

    Args:
        logdir: Directory of the run.
        outdir: Directory for the files, by default that of the run.
        num_agents: Number of environments that are played at the same time.
        num_episodes: Number of episodes of each.
        checkpoint: Training step of a checkpoint, or 'best'; by default the last.
        config: Configuration, if its functions cannot be found again.
        env_processes: Use worker processes, None for whichever is faster.
        changes: Texts `key=value` that replace settings.
        env: Environment instead of that of the run: a name, or a class or function.
        trust: Run code that the run names though this user has not signed it on this machine.
        written: Called with each file once it is written and the score of its episode, None for the
            plot.

    Returns:
        Files: the plot, then a video of each episode, named with the step of the checkpoint.
    """
    # Environments may change the working directory.
    shown = pathlib.Path(logdir if outdir is None else outdir)
    logdir, outdir = pathlib.Path(logdir).absolute(), shown.absolute()
    errors.require_integer('num_agents', num_agents, 1, MOST_AGENTS)
    errors.require_positive('num_episodes', num_episodes)
    run = playing.open_run(logdir, checkpoint, config, changes, env, trust)
    storage.require_checkpoint(logdir)
    with files.telling(outdir):
        outdir.mkdir(parents=True, exist_ok=True)
    files.clear_up(outdir)
    plotting.draw_run(logdir, outdir / CURVE)
    made: list[pathlib.Path] = []

    def add(name: str, score: float | None = None) -> None:
        made.append(shown / name)
        if written:
            written(made[-1], score)

    add(CURVE)
    with run.start(num_agents, env_processes, 'rgb_array') as played:
        for file, score in _play(*played, outdir, num_episodes):
            add(file.name, score)
    return made


def _play(
    batch_env: Any, policy: Any, outdir: pathlib.Path, num_episodes: int
) -> Iterator[tuple[pathlib.Path, float]]:
    """Play episodes and write each to a file; yields the file and the score."""
    videos: dict[int, Video] = {}
    try:
        yield from _play_all(batch_env, policy, outdir, num_episodes, videos)
    except (errors.Cancelled, KeyboardInterrupt):
        for video in videos.values():
            video.discard()
        raise
    finally:
        for video in videos.values():
            video.close()


def _play_all(
    batch_env: Any, policy: Any, outdir: pathlib.Path, num_episodes: int, videos: dict[int, 'Video']
) -> Iterator[tuple[pathlib.Path, float]]:
    step = f'step{policy.checkpoint}'  # Of several checkpoints, all are kept.
    fps = batch_env.metadata.get('render_fps', DEFAULT_FPS)
    agents_left = dict.fromkeys(range(len(batch_env)), num_episodes)
    scores = np.zeros(len(batch_env))
    observ = batch_env.reset()
    policy.reset()
    while agents_left:
        frames = batch_env.call('render')
        for agent, left in agents_left.items():
            if agent not in videos:
                episode = num_episodes - left
                file = outdir / f'agent{agent}-episode{episode}-{step}.mp4'
                videos[agent] = Video(file, fps)
            # The encoder would complain of half a frame.
            with interrupts.current().during('', hold=True):
                videos[agent].add(frames[agent])
        observ, reward, terminated, truncated, _ = batch_env.step(policy.choose(observ))
        scores += reward
        done = terminated | truncated
        policy.reset(done)
        for agent in np.flatnonzero(done).tolist():
            if agent in agents_left:
                video = videos.pop(agent)
                if batch_env.lost[agent]:  # Nothing was played.
                    video.discard()
                    continue
                video.close()
                yield video.file, scores[agent]
                agents_left[agent] -= 1
                if not agents_left[agent]:
                    del agents_left[agent]
        scores[done] = 0


class Video:
    """MP4 file of frames, which gets its name when closed.

    Args:
        file: File to write.
        fps: Frames per second.
    """

    def __init__(self, file: pathlib.Path, fps: float):
        self.file = file
        self._fps = fps
        self._writer: Any = None
        self._shape: tuple[int, ...] | None = None
        self._stack = contextlib.ExitStack()

    def add(self, frame: Any) -> None:
        """Add a frame `[height, width, 3]` of bytes."""
        frame = np.asarray(frame)
        if frame.ndim != 3 or frame.shape[-1] != 3 or not frame.size:
            raise errors.EnvError(
                f'The environment rendered {frame.shape or "nothing"} where a '
                'frame [height, width, 3] was expected. Its render mode '
                '"rgb_array" has to return one.'
            )
        if self._shape not in (None, frame.shape):
            before, after = [
                ' × '.join(map(str, shape[:2])) for shape in (self._shape, frame.shape)
            ]
            raise errors.EnvError(
                'The frames of a video must have the same size, got '
                f'{after} pixels after {before}. Let the environment scale '
                'what it renders.'
            )
        self._shape = frame.shape
        # The codec asks for even sizes.
        odd = [(0, size % 2) for size in frame.shape[:2]]
        frame = np.pad(frame, [*odd, (0, 0)], 'edge')
        if self._writer is None:
            height, width, _ = frame.shape
            new = self._stack.enter_context(files.replacing(self.file))
            self._writer = imageio_ffmpeg.write_frames(
                new.name,
                (width, height),
                fps=self._fps,
                macro_block_size=1,
                ffmpeg_log_level='error',
                output_params=['-f', 'mp4'],
            )
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(frame, np.uint8))

    def close(self) -> None:
        with self._stack:
            if self._writer is not None:
                self._writer.close()

    def discard(self) -> None:
        """Close without leaving a file."""
        with contextlib.suppress(_Discarded):
            self._stack.callback(_discard)
            self.close()


class _Discarded(Exception):
    """Raised to discard a file that is being written."""


def _discard() -> None:
    raise _Discarded
