"""Checkpoints and spaces of a run."""

import contextlib
import numbers
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents.tools import choices, errors, spaces, world
from agents.tools.runs import checkpoints, files
from agents.tools.workers import wire
from agents.training.simulation_graph import SimulationGraph

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.runs.records import Records
    from agents.tools.runs.saver import Saver

Path = str | pathlib.Path

CHECKPOINTS = 'checkpoints'
SPACES = 'spaces.bin'

# Limits for spaces that may come from strangers, whose bounds are arrays.
SPACES_BYTES = 2**27
MAX_WIDTH = 2**24


def define_saver(variables: Mapping[str, Any], logdir: Path, **options: Any) -> 'Saver':
    """Make the saver of a run, see `agents.tools.runs.saver`."""
    from agents.tools.runs.saver import Saver

    return Saver(pathlib.Path(logdir) / CHECKPOINTS, variables, **options)


def define_shared_saver(
    graph: SimulationGraph,
    step: Any,
    logdir: Path | None,
    keep: int,
    ranks: world.World,
    check: Callable[[], None],
) -> Any:
    """Make the saver of a run on one or several ranks.

    Args:
        graph: Graph of the training.
        step: Variable with the position of the loop, which is saved as well.
        logdir: Directory of the run; needed on the first rank only.
        keep: Number of checkpoints to keep.
        ranks: All ranks.
        check: Called before several ranks save a checkpoint.
    """
    from agents.tools.runs.shared_saver import SharedSaver

    variables = {**graph.variables, 'step': step}

    def define(whole: Mapping[str, Any]) -> 'Saver':
        assert logdir is not None
        return define_saver(
            whole, logdir, keep=keep, place='step', per_agent_variables=graph.agent_axes
        )

    if ranks.size == 1:
        return define(variables)
    return SharedSaver(define, variables, graph.per_agent_variables, ranks, check)


def last_checkpoint(logdir: Path | None) -> int | None:
    """Return the training step of the last checkpoint, without TensorFlow."""
    if logdir is None:
        return None
    steps = checkpoints.steps(pathlib.Path(logdir) / CHECKPOINTS)
    return steps[-1] if steps else None


def require_checkpoint(logdir: Path) -> None:
    """Refuse a run without checkpoints."""
    if last_checkpoint(logdir) is None:
        raise errors.ConfigError(
            f'There is no checkpoint in {logdir} yet. Let it train until its first evaluation.'
        )


def find_checkpoint(
    logdir: Path, checkpoint: int | str | None, warn: Callable[[str], None] = print
) -> int | None:
    """Return the training step of a checkpoint, without TensorFlow.

    Args:
        logdir: Directory of the run.
        checkpoint: Training step, 'best' for the highest score of an evaluation, or None for the
            last.
        warn: Called about damaged checkpoints that are skipped.

    Returns:
        Step, which may not exist, or None for the last.
    """
    if checkpoint is None or isinstance(checkpoint, numbers.Integral):
        return checkpoint
    if checkpoint != checkpoints.BEST:
        raise errors.ConfigError(
            f'A checkpoint is a training step or {checkpoints.BEST!r}, not {checkpoint!r}.'
        )
    directory = pathlib.Path(logdir) / CHECKPOINTS
    best = checkpoints.find_best(directory, warn)
    if best is None:
        steps = ', '.join(map(str, checkpoints.steps(directory)))
        raise errors.ConfigError(
            f'No checkpoint in {directory} tells the score of an evaluation, '
            f'so that none is the best; there are {steps or "none"}. Give a '
            'step, or take the last.'
        )
    return best.step


def require_room(logdir: Path, weights: int) -> None:
    """Refuse networks that are larger than the checkpoints of a run.

    Settings may come from a stranger; this is checked before networks are made, without TensorFlow.

    Args:
        logdir: Directory of the run.
        weights: Minimum number of weights of the networks.
    """
    last = checkpoints.last_whole(pathlib.Path(logdir) / CHECKPOINTS)
    room = checkpoints.count_numbers(last) if last else weights
    if weights > room:
        raise errors.ConfigError(
            f'The settings of {logdir} make networks of {weights:,} weights '
            f'or more, where {last} holds {room:,} numbers at most. Put the '
            'settings back that it has learnt with.'
        )


@contextlib.contextmanager
def define_records(
    logdir: Path, step: int, columns: Sequence[str] = (), **options: Any
) -> Iterator['Records']:
    """Open the results of a run, see `agents.tools.runs.records`."""
    from agents.tools.runs.records import Records

    made = Records(logdir, step, columns, **options)
    with contextlib.closing(made) as records:
        yield records


def save_spaces(batch_env: Any, logdir: Path) -> None:
    """Write the spaces of the environments, from which a policy is built."""
    found = batch_env.observation_space, batch_env.action_space
    files.write_changed(pathlib.Path(logdir) / SPACES, wire.dumps(found))


def load_spaces(logdir: Path) -> tuple[gym.Space, gym.Space]:
    """Read the result of `save_spaces`; runs no code."""
    path = pathlib.Path(logdir) / SPACES
    data = files.read(path, SPACES_BYTES)
    try:
        found = wire.loads(data, files.parse_json)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError('it does not hold two spaces')
        spaces.require_supported(*found)
        for space in found:
            width = spaces.width(space)
            if not 0 < width <= MAX_WIDTH:
                raise ValueError(f'it describes {width} numbers')
        return found
    except (ValueError, errors.EnvError) as error:
        reason = str(error).rstrip('.')
        raise errors.ConfigError(f'Cannot read {path}: {reason}.') from error


def require_same_spaces(batch_env: Any, logdir: pathlib.Path, otherwise: str) -> None:
    """Refuse environments with other spaces than those of the training.

    Bounds of observations may differ where the policy does not use them.

    Args:
        batch_env: Environments.
        logdir: Directory of the run.
        otherwise: Advice for the error.
    """
    observ, action = batch_env.observation_space, batch_env.action_space
    trained = load_spaces(logdir)
    found = spaces.first_difference(observ, trained[0])
    kind = 'observations'
    if found is None and action != trained[1]:
        found, kind = ('', action, trained[1]), 'actions'
    if found is None:
        return
    path, new, old = found
    setting = 'env and env_kwargs'
    if action == trained[1] and _differ_by_mask(observ, trained[0], action):
        setting, path, new, old = 'action_masks', '', observ, trained[0]
    raise errors.MisfitError(
        f'The environment must have the {kind}{path} of the run {logdir}, '
        f'{old}, got {new}. Leave {setting} as in its training, or '
        f'{otherwise}.'
    )


def _differ_by_mask(observ: gym.Space, trained: gym.Space, action: gym.Space) -> bool:
    """Return whether observations differ only by an action mask."""
    one, other = (
        choices.observed_space(each, action) if choices.may_be_told(each, action) else each
        for each in (observ, trained)
    )
    return spaces.first_difference(one, other) is None
