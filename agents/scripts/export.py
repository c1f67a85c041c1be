"""Exports the policy of a run to files that are used without this package.

agents export --logdir logdir/ant --outfile policy.npz

The exported policy maps observations of the environment to its actions: the normalizer, the
recurrent state, action masks and bounds are part of it, see `agents.exporting`. It is compared with
`agents.load` before the file gets its name.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()

from agents.exporting.export_run import SUFFIXES, Exported, export
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.training import experiments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)

    def command() -> None:
        code = experiments.find_for_run(given.config, given.env, given.trust)
        exported = export(
            given.logdir,
            given.outfile,
            given.format,
            given.checkpoint,
            check=not given.nocheck,
            changes=given.set,
            **code,
        )
        if not given.quiet:
            _tell(exported)

    return interrupts.run(command, given.quiet)


def _tell(exported: Exported) -> None:
    """Print what was written, the comparison and how to use it."""
    shown, about = console.on_terminal(), exported.description
    path, *beside = map(console.short, exported.paths)
    more = f' with {beside[0]}' if beside else ''
    shown.say(
        'policy', f'of {about["environment"]} at step {about["checkpoint"]:,} as {path}{more}'
    )
    if found := exported.comparison:
        ours, theirs = found.microseconds
        most = found.difference
        apart = f'at most {most:.0e} apart' if most else 'all the same'
        shown.say(
            'compared',
            f'{found.steps} steps of {found.source}, {ours:.0f} µs each '
            f'(agents.load: {theirs:.0f} µs), {apart}',
        )
    shown.say('inputs', ', '.join(map(_describe, about['inputs'])))
    shown.say('outputs', ', '.join(map(_describe, about['outputs'])))


def _describe(entry: dict[str, Any]) -> str:
    shape = '×'.join(map(str, entry['shape']))
    return f'{entry["name"]} ({shape + " " if shape else ""}{entry["dtype"]})'


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents export',
        description='Export the policy of a run to a file that is used without this '
        'package. It maps observations of the environment to the most probable '
        'action.',
        examples=[
            'agents export --logdir logdir/ant --outfile policy.npz',
            'agents export --logdir logdir/ant --outfile policy_dir',
            'agents export --logdir logdir/ant --outfile policy.onnx --checkpoint best',
        ],
    )
    parser.add_run()
    parser.add_argument(
        '--outfile',
        required=True,
        metavar='FILE',
        help='file to write: .npz for NumPy, .tflite or .onnx, or a directory for a SavedModel',
    )
    parser.add_argument(
        '--format',
        choices=SUFFIXES,
        metavar='NAME',
        help='npz, saved_model, litert or onnx (by the extension)',
    )
    parser.add_argument('--nocheck', action='store_true', help='do not compare it with agents.load')
    parser.add_functions()
    parser.add_set()
    parser.add_quiet()
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
