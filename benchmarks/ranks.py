"""How much several ranks of one machine are worth.

    python -m benchmarks.ranks --only weak

Weak: HalfCheetah with 4 agents and 64 rows of a minibatch for each rank, a core
for each, beside one rank on one core. Strong: 8 agents in all, beside one
process with two workers. Native: CartPole in TensorFlow, beside one process.
Each by the command as a user runs it, in turn, from the best report of each
run; the median of several.
"""

import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

MODES = 'average', 'average_epochs', 'gather'

# Long rollouts, and evaluations that take no time.
CHEETAH = {
    'update_every': 512,
    'eval_every': 250_000,
    'log_every': 250_000,
    'eval_episodes': 2,
    'max_length': 200,
}


class Run(NamedTuple):
    """A training to be timed, as settings of a config."""

    name: str
    config: str
    ranks: int
    settings: dict
    core: int | None = None


class Found(NamedTuple):
    """What the best report of a run says, with shares of its time."""

    steps_per_second: float
    messages: float
    environments: float


def weak() -> list[Run]:
    """Twice the work for two ranks."""

    def run(name: str, ranks: int, **settings: object) -> Run:
        each = {
            **CHEETAH,
            'num_agents': 4 * ranks,
            'batch_size': 64 * ranks,
            'steps': 500_000 * ranks,
            'eval_every': CHEETAH['eval_every'] * ranks,
            'log_every': CHEETAH['log_every'] * ranks,
        }
        core = 0 if ranks == 1 else None
        return Run(name, 'cheetah', ranks, {**each, **settings}, core)

    return [run('1 rank on 1 core', 1), *[run(f'2 ranks, {m}', 2, distribute=m) for m in MODES]]


def strong() -> list[Run]:
    """The same work for two ranks as for one process with two workers."""
    each = {**CHEETAH, 'num_agents': 8, 'update_every': 256, 'steps': 1_000_000}
    return [
        Run('1 process, 2 workers', 'cheetah', 1, each),
        *[Run(f'2 ranks, {mode}', 'cheetah', 2, {**each, 'distribute': mode}) for mode in MODES],
    ]


def native() -> list[Run]:
    """CartPole in the graph, with many agents."""
    each = {
        'num_agents': 64,
        'update_every': 128,
        'batch_size': 1024,
        'steps': 4_000_000,
        'eval_every': 1_000_000,
        'log_every': 1_000_000,
    }
    config = 'cartpole_native'
    return [
        Run('1 process', config, 1, each),
        *[Run(f'2 ranks, {mode}', config, 2, {**each, 'distribute': mode}) for mode in MODES],
    ]


KINDS = {'weak': weak, 'strong': strong, 'native': native}


def measure(run: Run, logdir: str) -> Found:
    """Train, and read what the run says of itself."""
    command = [sys.executable, '-m', 'agents.scripts.train']
    command += [f'--config={run.config}', f'--logdir={logdir}']
    command += [f'--nprocs={run.ranks}']
    for key, value in run.settings.items():
        command += ['--set', f'{key}={value}']

    def stay() -> None:
        if run.core is not None:
            os.sched_setaffinity(0, [run.core])

    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=stay)
    (path,) = pathlib.Path(logdir).glob('*/progress.csv')
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row['phase'] == 'train']
    best = max(rows[1:], key=lambda row: float(row['steps_per_second']))
    rate = float(best['steps_per_second'])
    rollout = run.settings['num_agents'] * run.settings['update_every'] / rate
    return Found(
        rate,
        float(best.get('rank_seconds') or 0) / rollout,
        float(best.get('env_seconds') or 0) / rollout,
    )


def compare(runs: Sequence[Run], repeats: int) -> None:
    """Time all in turn, and print how they relate to the first."""
    found: dict[str, list[Found]] = {run.name: [] for run in runs}
    for _ in range(repeats):
        for run in runs:
            with tempfile.TemporaryDirectory() as logdir:
                found[run.name].append(measure(run, logdir))
    base = statistics.median(x.steps_per_second for x in found[runs[0].name])
    for name, several in found.items():
        median = sorted(several)[len(several) // 2]
        print(
            f'{name:28}{median.steps_per_second:10,.0f} steps/s   '
            f'{median.steps_per_second / base:5.2f}×   '
            f'messages {median.messages:4.0%}   '
            f'environments {median.environments:4.0%}',
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--only', choices=list(KINDS))
    parser.add_argument('--repeats', type=int, default=3)
    options = parser.parse_args()
    for kind in [options.only] if options.only else KINDS:
        print(f'{kind}:', flush=True)
        compare(KINDS[kind](), options.repeats)


if __name__ == '__main__':
    main()
