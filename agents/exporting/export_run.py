"""Export of the policy of a run."""

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
    """Exported policy.

    Attributes:
        paths: File or directory, and files beside it.
        format: Format.
        description: Inputs and outputs, as in the file.
        comparison: Comparison with `agents.load`, or None.
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

    It takes the most probable actions. An `.npz` needs only NumPy and the file `run_policy.py`,
    which is written beside it:

        policy = run_policy.Policy('policy.npz')
        action = policy(observ)

    Args:
        logdir: Directory of the run.
        outfile: File to write, or directory for a SavedModel.
        format: One of npz, saved_model, litert and onnx; by default from the extension of the file:
            .npz, .tflite or .onnx.
        checkpoint: Training step of a checkpoint, or `best`; by default the last.
        config: Configuration, if its functions cannot be found again.
        check: Compare it with `agents.load`.
        changes: Texts `key=value` that replace settings of the environment for the comparison.
        env: Environment for the comparison, instead of that of the run: a name, or a class or
            function.
        trust: Run code that the run names though this user has not signed it on this machine.

    Raises:
        UserError: If its actions differ by more than 1e-5.
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
        f'The format of {path.name} must be known from its extension, {endings}, or '
        f'none for a SavedModel. Rename it, or pass --format with one of {", ".join(SUFFIXES)}.'
    )


def _about(logdir: pathlib.Path, checkpoint: int | None) -> dict[str, Any]:
    """Describe the run and the versions that a policy is from."""
    from agents.tools.graph.backend import tf

    env = str(store.load_config(logdir)['env'])
    return {
        'agents': agents.__version__,
        'tensorflow': tf.__version__,
        'environment': plain_yaml.bare_name(env),
        'checkpoint': checkpoint,
    }
