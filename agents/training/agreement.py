"""Consistency checks between ranks."""

import importlib.metadata
import json
import pathlib
import platform
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import agents
from agents.config import plain_yaml
from agents.tools import cpu, errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import checkpoints, files
from agents.tools.world import World
from agents.training import storage

# How ranks are told to learn together.
MANNERS = {
    'average': 'gradients averaged in each minibatch',
    'average_epochs': 'weights averaged once an epoch',
    'gather': 'rollouts gathered by the first',
}

PACKAGES = 'tensorflow', 'keras', 'numpy', 'gymnasium'


def come_together(
    ranks: World, config: AttrDict, logdir: pathlib.Path | None, say: Callable[[str, str], None]
) -> None:
    """Check that all ranks were started alike, and share the cores.

    Args:
        ranks: All ranks.
        config: Settings of this rank.
        logdir: Run directory given to this rank.
        say: Prints where the ranks run.
    """
    if ranks.size == 1:
        return
    ranks.watch(config.rank_timeout)
    require_same_start(ranks, config, logdir)
    here, count = ranks.count_here()
    before = ranks.gather_here(cpu.cores())
    # Not where the launcher has decided which of them is where.
    if all(each == before[0] for each in before):
        cpu.take_share(here, count)
    machines = sum(ranks.gather(here == 0))
    places = 'this machine' if machines == 1 else f'{machines} machines'
    room = f'{_cores(len(cpu.cores()))} for each'
    every = {core for cores in before for core in cores}
    if len(every) < count:
        room = f'{_cores(len(every))} for {count}, which is slow'
    say('ranks', f'{ranks.size} on {places}, {room}; {MANNERS[config.distribute]}')


def require_same_start(ranks: World, config: AttrDict, logdir: pathlib.Path | None) -> None:
    """Refuse ranks that were started with different settings or versions.

    Args:
        ranks: All ranks.
        config: Settings of this rank.
        logdir: Run directory given to this rank; must exist for the first rank only.
    """
    settings = {
        key: json.dumps(plain_yaml.simplify(value), sort_keys=True) for key, value in config.items()
    }
    _require_same(ranks, {**_versions(), **settings})
    first, *others = ranks.gather(_describe_checkpoint(logdir))
    for rank, found in enumerate(others, 1):
        if found not in (None, first):
            raise errors.ConfigError(
                f'Rank {rank} finds the checkpoint {found} in the directory of '
                f'this run, where the first has {first or "none"}. Remove the '
                'one that is not meant.'
            )


def require_same_spaces(ranks: World, batch_env: Any) -> None:
    """Refuse ranks whose environments have different spaces."""
    _require_same(
        ranks,
        {'observations': str(batch_env.observation_space), 'actions': str(batch_env.action_space)},
    )


def require_same_weights(ranks: World, variables: Iterable[Any]) -> None:
    """Refuse to continue with ranks whose weights have diverged."""
    if ranks.size == 1:
        return
    digest = 0
    for variable in variables:
        digest = zlib.crc32(np.asarray(variable).tobytes(), digest)
    found = ranks.gather(digest)
    different = [str(rank) for rank, x in enumerate(found) if x != found[0]]
    if different:
        raise errors.UserError(
            f'Weights must be equal on all ranks, but {", ".join(different)} differ '
            'from the first. Nothing was saved. Use machines with the same processors, '
            'and networks that do not depend on the rank.'
        )


def _cores(count: int) -> str:
    return '1 core' if count == 1 else f'{count} cores'


def _require_same(ranks: World, mine: dict[str, str]) -> None:
    first, *others = ranks.gather(mine)
    for rank, found in enumerate(others, 1):
        for key in sorted({*first, *found}):
            if first.get(key) != found.get(key):
                raise errors.ConfigError(
                    f'Rank {rank} has {key}={found.get(key)}, where the first '
                    f'has {first.get(key)}. Start all ranks by the same '
                    'command, with the same packages.'
                )


def _versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    python = platform.python_version()
    return {'agents': agents.__version__, 'python': python, **found}


def _describe_checkpoint(logdir: pathlib.Path | None) -> str | None:
    """Return the step of the last checkpoint of a run, and a checksum."""
    step = storage.last_checkpoint(logdir)
    if logdir is None or step is None:
        return None
    path = checkpoints.path_of(logdir / storage.CHECKPOINTS, step)
    manifest = path / checkpoints.MANIFEST
    try:
        text = files.read(manifest, checkpoints.MANIFEST_BYTES)
    except errors.UserError:
        return f'{step} (damaged)'
    return f'{step} ({zlib.crc32(text):08x})'
