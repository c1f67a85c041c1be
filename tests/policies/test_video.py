"""Videos and plots of a finished run, looked at frame by frame."""

import re
import shutil
import signal
import time

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
from matplotlib import pyplot

from agents.config import store
from agents.environments.pendulum import Pendulum
from agents.policies import video
from agents.scripts import configs, visualize
from agents.tools import errors
from agents.training import storage


class Unseen(Pendulum):
    """A native environment that cannot be drawn."""

    twin = None


def frames(file):
    """The frames of a video, `[time, height, width, 3]`."""
    reader = imageio_ffmpeg.read_frames(str(file))
    width, height = next(reader)['size']
    found = [np.frombuffer(frame, np.uint8) for frame in reader]
    return np.stack(found).reshape(-1, height, width, 3)


@pytest.fixture(scope='module')
def visualized(debug_run, once, run_python):
    """What the command prints, and the directory of its files."""
    command = ['-m', 'agents.scripts.visualize', '--outdir=videos/here']
    command += [f'--logdir={debug_run.directory}']
    command += ['--num_agents=2', '--num_episodes=2']

    def film(place):
        (place / 'home').mkdir()
        finished = run_python(*command, cwd=place / 'home')
        assert (finished.code, finished.problems) == (0, '')
        (place / 'output').write_text(finished.output)

    place = once('visualized', film)
    return (place / 'output').read_text(), place / 'home' / 'videos' / 'here'


@pytest.fixture
def run(debug_run, tmp_path):
    """A copy of the run, to be changed."""
    return shutil.copytree(debug_run.directory, tmp_path / 'run')


def test_command_prints_files_and_scores(visualized):
    output, outdir = visualized
    curve, *videos = output.splitlines()
    assert curve == 'videos/here/learning_curve.png'
    line = r'videos/here/agent(\d)-episode(\d)-step2000\.mp4  score \d+\.\d'
    found = [re.fullmatch(line, video).groups() for video in videos]
    assert sorted(found) == [(a, e) for a in '01' for e in '01']
    home = outdir.parent.parent
    assert [path.name for path in home.iterdir()] == ['videos']
    assert len(list(outdir.iterdir())) == 5


def test_videos_show_the_episodes(visualized):
    output, outdir = visualized
    for line in output.splitlines()[1:]:
        name, score = re.search(r'(agent.*mp4)  score (.*)', line).groups()
        shown = frames(outdir / name)
        # The reward of every step is 1.
        assert len(shown) == float(score)
        assert shown.shape[1:] == (400, 600, 3)
        # A dark cart on white ground, which moves.
        assert shown[0].min() < 60 and np.median(shown[0]) > 240
        changed = abs(shown[0].astype(int) - shown[-1]).max(-1) > 50
        assert 1e-4 < changed.mean() < 0.5


def test_videos_are_of_different_episodes(visualized):
    _, outdir = visualized
    firsts = [frames(file)[0] for file in sorted(outdir.glob('*.mp4'))]
    for index, first in enumerate(firsts):
        for other in firsts[:index]:
            assert abs(first.astype(int) - other).max() > 50


def test_curve_is_an_image_of_two_lines(visualized):
    image = pyplot.imread(visualized[1] / 'learning_curve.png')[..., :3]
    assert image.shape == (630, 1050, 3)
    colors = {tuple(color) for color in (image.reshape(-1, 3) * 255).round().astype(int)}
    # The ground and the first two lines, #0072b2 and #d55e00.
    assert {(255, 255, 255), (0, 114, 178), (213, 94, 0)} <= colors


def test_video_has_its_name_once_it_is_complete(tmp_path):
    (tmp_path / 'video.mp4').write_text('The one before.')
    film = video.Video(tmp_path / 'video.mp4', fps=10)
    film.add(np.zeros((64, 64, 3), np.uint8))
    assert (tmp_path / 'video.mp4').read_text() == 'The one before.'
    film.close()
    assert len(frames(tmp_path / 'video.mp4')) == 1
    assert [path.name for path in tmp_path.iterdir()] == ['video.mp4']


@pytest.fixture
def mistake(tmp_path, capsys):
    """A function that visualizes by mistake and returns what that prints."""

    def execute(*arguments):
        arguments = [*arguments, f'--outdir={tmp_path / "out"}']
        assert visualize.main([*arguments, '--noenv_processes']) == 1
        problems = capsys.readouterr().err
        assert re.fullmatch(r'error: [^\n]+\n', problems), problems
        return problems

    return execute


def test_missing_run_is_named(mistake, tmp_path):
    problems = mistake(f'--logdir={tmp_path / "missing"}')
    assert 'missing/config.yaml. Expected the directory of a run' in problems


def test_missing_checkpoints_are_named(mistake, run):
    assert 'There is no checkpoint 1500' in mistake(f'--logdir={run}', '--checkpoint=1500')
    shutil.rmtree(run / storage.CHECKPOINTS)
    assert 'no checkpoint in' in mistake(f'--logdir={run}')


@pytest.mark.slow
def test_native_environment_without_frames_is_named(native_run, tmp_path):
    with pytest.raises(errors.ConfigError, match='Unseen must have a method r'):
        video.visualize(native_run, tmp_path, env=Unseen)


def test_missing_scores_are_named(mistake, run):
    (run / 'progress.csv').unlink()
    assert 'progress.csv: No such file' in mistake(f'--logdir={run}')


@pytest.mark.parametrize('name', ['num_agents', 'num_episodes'])
@pytest.mark.parametrize('count', [0, -1])
def test_nothing_to_play_is_refused(mistake, run, name, count):
    problems = mistake(f'--logdir={run}', f'--{name}={count}')
    assert f'{name} must be ' in problems and f', got {count}.' in problems


def test_unknown_config_is_named(mistake, run):
    problems = mistake(f'--logdir={run}', '--config=debgu')
    assert "did you mean 'debug'?" in problems


def test_directory_that_cannot_be_made_is_named(mistake, run, tmp_path):
    (tmp_path / 'out').write_text('')
    assert 'Cannot write to' in mistake(f'--logdir={run}')


def test_arguments_are_checked():
    for arguments in ([], ['--logdir=x', '--num_agents=two']):
        with pytest.raises(SystemExit) as info:
            visualize.main(arguments)
        assert info.value.code == 2


def use_function(run):
    """Let it seem that the environment of a run is a function."""
    file = run / store.CONFIG_FILE
    text = file.read_text().replace('env: CartPole-v1', 'env: <function f>')
    file.write_text(text)


def test_environment_of_the_user_needs_the_config(mistake, run, tmp_path):
    use_function(run)
    assert 'cannot be imported again' in mistake(f'--logdir={run}')

    def make(render_mode):
        return gym.make('CartPole-v1', render_mode=render_mode)

    config = configs.debug().copy(env=make, max_length=5)
    files = video.visualize(run, config=config, checkpoint=1000)
    assert files[0].parent == run
    assert [file.name for file in files] == ['learning_curve.png', 'agent0-episode0-step1000.mp4']
    # The length is that of the run.
    assert len(frames(files[1])) > 5


@pytest.mark.parametrize(
    'frame, message',
    [
        (None, 'rendered nothing where a frame'),
        (np.zeros((4, 4)), r'rendered \(4, 4\) where a frame'),
        (np.zeros((0, 4, 3)), r'rendered \(0, 4, 3\) where a frame'),
    ],
)
def test_environment_that_renders_no_frames(nothing_left, run, tmp_path, frame, message):
    use_function(run)

    def make(render_mode):
        class Blind(gym.Wrapper):
            def render(self):
                return frame

        return Blind(gym.make('CartPole-v1'))

    config = configs.debug().copy(env=make)
    with pytest.raises(errors.EnvError, match=message):
        video.visualize(run, tmp_path, config=config, env_processes=False)


def test_error_while_playing_leaves_nothing(nothing_left, run, tmp_path):
    use_function(run)

    def make(render_mode):
        class Fragile(gym.Wrapper):
            def step(self, action):
                raise ArithmeticError('It broke.')

        return Fragile(gym.make('CartPole-v1', render_mode=render_mode))

    config = configs.debug().copy(env=make)
    with pytest.raises(errors.EnvError, match='It broke') as info:
        video.visualize(run, tmp_path, config=config)
    # The frame before the error can be seen, though the error is kept.
    assert len(frames(tmp_path / 'agent0-episode0-step2000.mp4')) == 1
    assert info.tb


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_whole_videos_alone(nothing_left, debug_run, tmp_path, number, start_python):
    command = ['-um', 'agents.scripts.visualize', '--num_episodes=10000']
    command += [f'--logdir={debug_run.directory}', f'--outdir={tmp_path}']
    process = start_python(*command, '--num_agents=2')
    lines = [process.stdout.readline() for _ in range(3)]
    time.sleep(0.2)  # Until the next ones have begun.
    process.send_signal(number)
    code, output, problems = process.finish()
    assert (code, problems) == (128 + number, '')
    said = f'{number.name}: stopping; once more to exit at once.\n'
    assert said in output
    told = re.findall(r'agent.*mp4', ''.join(lines) + output)
    assert sorted(told) == sorted(path.name for path in tmp_path.glob('*.mp4'))


@pytest.mark.parametrize('size', [(64, 48), (33, 35)])
def test_video_has_the_frames_that_were_added(tmp_path, size, caplog):
    height, width = size
    film = video.Video(tmp_path / 'video.mp4', fps=10)
    for level in (20, 120, 220):
        film.add(np.full((height, width, 3), level, np.uint8))
    film.close()
    shown = frames(film.file)
    assert abs(shown.mean((1, 2, 3)) - [20, 120, 220]).max() < 3
    # Of a size that the codec can do.
    assert shown.shape[1:3] == (height + height % 2, width + width % 2)
    assert not caplog.records


def test_frames_of_another_size_are_refused(tmp_path):
    film = video.Video(tmp_path / 'video.mp4', fps=10)
    film.add(np.zeros((64, 48, 3), np.uint8))
    with pytest.raises(errors.EnvError, match='got 32 × 48 pixels after 64 × 4'):
        film.add(np.zeros((32, 48, 3), np.uint8))
    film.close()
    assert len(frames(film.file)) == 1
