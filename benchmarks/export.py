"""Microseconds an action: exported policies, `agents.load` and a peer.

    python -m benchmarks.export --sb3 python_with_stable_baselines3

One observation at a time, from an array of the environment to the action that
it is stepped with, most probable, one thread each. The median of a thousand
calls; all take turns, and each number is the best of three such rounds, as
others may use the machine. LiteRT and ONNX are what of them is installed.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from agents import configs
from benchmarks import alone, peers

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    'numbers': ('17 numbers, 64-64 units, 6 actions', {}),
    'memory': ('the same with a memory of 128', {'network': 'recurrent'}),
    'images': ('4 frames of 84×84, convolutions', {'activation': 'relu'}),
}
FORMATS = 'npz', 'saved_model', 'litert', 'onnx'
ROUNDS = 3


def measure(kind: str) -> dict[str, float]:
    """Microseconds an action by what chooses it."""
    from agents.exporting import formats
    from agents.parts import policy
    from agents.policies.load import LoadedPolicy
    from agents.tools.graph import devices
    from agents.training import networks

    devices.use_threads(1)
    env = peers.Still(kind)
    spaces = env.observation_space, env.action_space
    config = configs.ppo(policy_layers=[] if kind == 'images' else [64, 64], **KINDS[kind][1])
    made = networks.define(*spaces, config)
    learnt = policy.define(made.policy, *spaces, config, encoder=made.encoder)
    policies: dict[str, Any] = {'agents.load': LoadedPolicy(learnt, env.observation_space)}
    with tempfile.TemporaryDirectory() as directory:
        for format in FORMATS:
            path = pathlib.Path(directory) / format / 'policy'
            path.parent.mkdir()
            try:
                with formats.replacing(path, format) as new:
                    described = formats.write(learnt, env.observation_space, {}, new, format)
                policies[format] = formats.read(path, format, described)
            except ImportError:
                continue
        observ = env.observation_space.sample()
        return {
            name: peers.typical_microseconds(lambda each=each: each(observ))
            for name, each in policies.items()
        }


def rounds(kind: str, python: str) -> Iterator[dict[str, float]]:
    for _ in range(ROUNDS):
        found = alone.run(__spec__.name, kind)
        theirs = peers.result(peers.start(python, 'predicting', kind))
        if theirs is not None:
            found['SB3 predict'] = theirs
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--sb3',
        default=sys.executable,
        help='interpreter that has stable_baselines3 and sb3_contrib (this)',
    )
    parser.add_argument('--only', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    for kind, (text, _) in KINDS.items():
        found = list(rounds(kind, options.sb3))
        print(f'\n{text}, microseconds an action')
        for name in found[0]:
            best = min(each[name] for each in found)
            print(f'  {name:<12}{best:8.0f}', flush=True)


if __name__ == '__main__':
    main()
