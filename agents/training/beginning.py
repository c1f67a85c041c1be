"""Initialization of a run from the checkpoint of another run."""

import functools
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agents.config import plain_yaml, store
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import checkpoints
from agents.tools.world import World
from agents.training import simulation_graph, storage

# What can be taken, and how its names in a checkpoint begin.
POLICY = 'policy'
VALUE = 'value'
SEEN, REWARDS = 'statistics of observations', 'statistics of rewards'
PARTS = {
    POLICY: ('policy/network/', 'policy/encoder/'),
    SEEN: ('policy/normalizer/',),
    VALUE: ('algo/value/network/',),
    REWARDS: ('algo/reward_normalizer/statistics/',),
}

# Settings that say what rewards are, and so what the value is of.
UNITS = 'rewards', 'normalize_reward'

# Those by which networks of the same sizes compute the same.
SETTINGS = (*store.NETWORK_SIZES, 'activation')


class Source(NamedTuple):
    """Checkpoint that a run starts from.

    Attributes:
        directory: Directory of the other run.
        step: Training step of the checkpoint.
        name: Directory as it was given, and the step, for the settings and messages.
        parts: Description of what is taken.
    """

    directory: pathlib.Path
    step: int
    name: str
    parts: Sequence[str]


def choose(
    config: AttrDict,
    logdir: pathlib.Path | None,
    resumes: bool,
    ranks: World,
    say: Callable[[str, str], None],
) -> tuple[AttrDict, Source | None]:
    """Find the checkpoint that a run starts from, and note it in the settings.

    Args:
        config: Settings of the run.
        logdir: Directory of the run, if it has one.
        resumes: Whether the run has a checkpoint of its own.
        ranks: All ranks; only the first reads files.
        say: Prints about damaged checkpoints that are skipped.
    """
    if resumes:
        return go_on(config, logdir) if logdir else config, None
    if not ranks.is_first:
        return config, None
    source = find(config, functools.partial(say, 'begin'))
    return config.copy(begin_from=source and source.name), source


def find(config: AttrDict, say: Callable[[str], None]) -> Source | None:
    """Find the checkpoint to start from, and refuse one that does not fit.

    Without TensorFlow, and before anything else of the run exists.

    Args:
        config: Settings of the new run.
        say: Prints about damaged checkpoints that are skipped.
    """
    if config.begin_from is None:
        return None
    given, checkpoint = split(config.begin_from)
    directory = pathlib.Path(given).absolute()
    saved = store.load_config(directory)
    for key in SETTINGS:
        old, new = store.compare(saved, config, key)
        if old != new:
            raise errors.ConfigError(
                f'{given} was trained with {key}={old}; a run with {key}={new} '
                f'cannot begin from it. Choose {key}={old}, or do not begin '
                'from it.'
            )
    step = storage.find_checkpoint(directory, checkpoint, say)
    step = _find_whole(directory, step, say)
    alike = all(saved.get(key) == config[key] for key in UNITS)
    parts = [POLICY, VALUE, SEEN, REWARDS] if alike else [POLICY, SEEN]
    return Source(directory, step, f'{given}@{step}', parts)


def split(text: str) -> tuple[str, int | str | None]:
    """Split a setting `begin_from` into directory and checkpoint."""
    match = re.fullmatch(f'(.+)@({checkpoints.BEST}|[0-9]{{1,18}})', text, re.DOTALL)
    if not match or os.path.lexists(text):
        return text, None
    best = match[2] == checkpoints.BEST
    return match[1], checkpoints.BEST if best else int(match[2])


def go_on(config: AttrDict, logdir: pathlib.Path) -> AttrDict:
    """Return the settings of a run that resumes, with the source it started from."""
    before = store.load_config(logdir).get('begin_from')
    given = config.begin_from
    if given is not None and (before is None or split(given)[0] != split(str(before))[0]):
        raise errors.ConfigError(
            f'{logdir} has learnt already, so that it cannot begin from '
            f'{given}. Leave that out to go on with it, or begin a new run.'
        )
    return config.copy(begin_from=before)


def take(
    source: Source | None,
    graph: simulation_graph.SimulationGraph,
    config: AttrDict,
    ranks: World,
    say: Callable[[str, str], None],
) -> None:
    """Set variables from the checkpoint of another run.

    Args:
        source: Checkpoint to take them from; known to the first rank only.
        graph: Graph of the training, on all ranks.
        config: Settings.
        ranks: All ranks.
        say: Prints what is taken.
    """
    taken: list[str] = []
    if source is not None:
        pairs = _match(source, graph.variables, config)
        saver = storage.define_saver(pairs, source.directory, partial=True)
        saver.restore(source.step)
        taken = [*pairs]
        _tell(source, taken, say)
    _share(ranks.share(taken), graph.variables, ranks)


def _find_whole(directory: pathlib.Path, step: int | None, say: Callable[[str], None]) -> int:
    """Return the step of an undamaged checkpoint, by default the last."""
    home = directory / storage.CHECKPOINTS
    steps = checkpoints.steps(home)
    if not steps or step not in (None, *steps):
        raise errors.ConfigError(
            f'There is no checkpoint{"" if step is None else f" {step}"} in '
            f'{home}; there are {", ".join(map(str, steps)) or "none"}.'
        )
    candidates = steps if step is None else [step]
    for number in reversed(candidates):
        try:
            checkpoints.verify(checkpoints.path_of(home, number))
            return number
        except errors.UserError as error:
            if number == candidates[0]:
                raise
            say(f'{error} Falling back to the one before.')
    raise AssertionError('There is one at least.')


def _match(source: Source, variables: Mapping[str, Any], config: AttrDict) -> dict[str, Any]:
    """Find the variables to set; a value network that one run lacks is left out."""
    from agents.tools.runs import tensors

    home = source.directory / storage.CHECKPOINTS
    path = checkpoints.path_of(home, source.step)
    stored = tensors.specs(path / checkpoints.TENSORS)
    pairs = {}
    for part in source.parts:
        old, new = [
            {
                name: list(tensor.shape)
                for name, tensor in tensors_by_name.items()
                if name.startswith(PARTS[part])
            }
            for tensors_by_name in (stored, variables)
        ]
        if part not in (POLICY, SEEN) and not (old and new):
            continue
        if old != new:
            raise _misfit(source, part, config)
        pairs.update({name: variables[name] for name in new})
    return pairs


def _misfit(source: Source, part: str, config: AttrDict) -> errors.ConfigError:
    """Make the error for networks that do not fit although the settings did."""
    key = 'network' if callable(config.network) else 'shared_encoder'
    value = plain_yaml.simplify(config.get(key))
    return errors.ConfigError(
        f'The {part} of {source.name} has other weights than that of a run '
        f'with {key}={value} and algorithm={config.algorithm}, which cannot '
        f'begin from it. Choose {key} as it was there.'
    )


def _tell(source: Source, taken: Sequence[str], say: Callable[[str, str], None]) -> None:
    directory, _, step = source.name.rpartition('@')
    listed: list[str] = []
    lacking: list[str] = []
    for part, prefixes in PARTS.items():
        is_taken = any(name.startswith(prefixes) for name in taken)
        (listed if is_taken else lacking).append(part)
    say('begin', f'from {directory} at step {int(step):,}: {", ".join(listed)}')
    rest = [*lacking, 'optimizer, schedule and step']
    say('', f'{", ".join(rest)} begin anew')


def _share(taken: Sequence[str], variables: Mapping[str, Any], ranks: World) -> None:
    """Broadcast the taken variables that all ranks have from the first."""
    if ranks.size == 1:
        return
    from agents.tools.graph import mpi

    every = ranks.gather([name for name in taken if name in variables])
    common = sorted(set.intersection(*map(set, every)))
    read = [variables[name].read_value() for name in common]
    for name, value in zip(common, mpi.define(ranks).broadcast(read), strict=True):
        variables[name].assign(value)
