"""Writes the policy of a run to files that are used without this package."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import agents
from agents.config import plain_yaml, store
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import files

if TYPE_CHECKING:  # Imports TensorFlow.
    from agents.exporting.export_check import Found

# Formats, and how the names of their files end.
SUFFIXES = {'npz': '.npz', 'saved_model': '', 'litert': '.tflite', 'onnx': '.onnx'}


class Exported(NamedTuple):
    """An exported policy.

    Attributes:
        paths: The file or directory, and what was put beside it.
        format: Its format.
        description: What goes in and comes out, as in the file.
        comparison: What it has in common with `agents.load`, or None if that
            was not asked for.
    """

    paths: list[pathlib.Path]
    format: str
    description: dict[str, Any]
    comparison: 'Found | None'


def export(
    logdir: str | pathlib.Path,
    outfile: str | pathlib.Path,
    format: str | None = None,
    checkpoint: int | str | None = None,
    config: AttrDict | None = None,
    check: bool = True,
    changes: Sequence[str] = (),
    env: Any = None,
    trust: bool = False,
) -> Exported:
    """Write the policy of a run to a file that is used without this package.

        agents.export('logdir/pendulum', 'policy.npz')

    It takes the most probable actions. An `.npz` needs nothing but NumPy and
    the file `run_policy.py`, which is put beside it:

        policy = run_policy.Policy('policy.npz')
        action = policy(observ)

    Args:
        logdir: Directory of the run.
        outfile: The file, or for a SavedModel the directory.
        format: One of npz, saved_model, litert and onnx, by default as the
            name of the file ends: .npz, .tflite or .onnx.
        checkpoint: Training step of a checkpoint, or `best`; by default the
            last.
        config: The configuration, where functions of it cannot be found again.
        check: Whether to compare it with what `agents.load` does.
        changes: Texts `key=value` that replace settings of the environment that
            it is compared in.
        env: Environment to play in instead of that of the run: a name, or a
            class or function.
        trust: Whether to run code that the run names though this user has not
            signed it on this machine.

    Raises:
        UserError: If it does not choose the same actions, but for 1e-5.
    """
    # Environments may change the working directory.
    logdir = pathlib.Path(logdir).absolute()
    path = files.place(outfile)
    kind = _find_format(path, format)
    # Only now, as these import TensorFlow.
    from agents.exporting import export_check, formats, onnx_model

    if kind == 'onnx':
        onnx_model.require_packages()
    loaded = agents.load(logdir, config, checkpoint, trust=trust)
    comparison = None
    with formats.replacing(path, kind) as new:
        described = formats.write(
            loaded.policy, loaded.observation_space, _about(logdir, loaded.checkpoint), new, kind
        )
        if check:
            moments, source = export_check.observe(loaded, logdir, config, changes, env, trust)
            exported = formats.read(new, kind, described)
            comparison = export_check.compare(loaded, exported, moments, source)
        beside = formats.write_beside(path, kind, described)
    return Exported([path, *beside], kind, described, comparison)


def _find_format(path: pathlib.Path, format: str | None) -> str:
    if format is not None:
        errors.require_known('format', format, SUFFIXES)
        return format
    for kind, suffix in SUFFIXES.items():
        if path.suffix == suffix:
            return kind
    endings = ', '.join(filter(None, SUFFIXES.values()))
    raise errors.ConfigError(
        f'What is {path.name} to be? A name that ends in {endings} says it, or '
        f'one without an ending for a SavedModel, or --format, which is one of '
        f'{", ".join(SUFFIXES)}.'
    )


def _about(logdir: pathlib.Path, checkpoint: int | None) -> dict[str, Any]:
    """Describe the run and versions that a policy is from."""
    from agents.tools.graph.backend import tf

    env = str(store.load_config(logdir)['env'])
    return {
        'agents': agents.__version__,
        'tensorflow': tf.__version__,
        'environment': plain_yaml.bare_name(env),
        'checkpoint': checkpoint,
    }
