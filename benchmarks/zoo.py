"""Trains the policies of the zoo, and tells on its page what they score.

    python -m benchmarks.zoo               # All of them.
    python -m benchmarks.zoo hopper ant    # Some, again.

Each is what `agents train --config=NAME --seed=0` makes, its best checkpoint by
evaluation, with which 100 other episodes are then played. Wants both cores.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile

import agents
from agents.tools.runs import checkpoints
from agents.training import storage

ROOT = pathlib.Path(__file__).parent.parent
ZOO, PAGE = ROOT / 'zoo', ROOT / 'docs' / 'zoo.md'

NAMES = (
    'cartpole_native',
    'pendulum_native',
    'acrobot_native',
    'mountain_car_native',
    'mountain_car_continuous_native',
    'memory_native',
    'catch_native',
    'reacher',
    'inverted_double_pendulum',
    'swimmer',
    'hopper',
    'cheetah',
    'walker',
    'ant',
    'humanoid',
)
SEED = 0
EPISODES = 100
# Other than those of the evaluations by which the checkpoint was chosen.
EVALUATION_SEED = 1000

# What of a run is shipped beside the checkpoint.
FILES = 'config.yaml', 'spaces.bin', 'progress.csv'
HEAD = '| run | environment | trained for | seconds | score |\n'
RULE = '| --- | --- | --- | --- | --- |\n'
ROW = re.compile(r'^(\| `(\w+)` .*\n)', re.MULTILINE)


def train(name: str) -> None:
    """Train a policy, and ship what is needed of its run."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [
                *('agents', 'train', '--quiet', f'--config={name}'),
                *(f'--seed={SEED}', f'--logdir={directory}', f'--name={name}'),
            ],
            check=True,
        )
        ship(pathlib.Path(directory) / name, ZOO / name)


def ship(run: pathlib.Path, target: pathlib.Path) -> None:
    step = storage.find_checkpoint(run, checkpoints.BEST)
    assert step is not None
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in FILES:
        shutil.copy(run / file, target)
    best = checkpoints.path_of(pathlib.Path(storage.CHECKPOINTS), step)
    shutil.copytree(run / best, target / best)


def describe(name: str) -> str:
    """Evaluate what is shipped of a run, and describe it as a row."""
    found = agents.evaluate(ZOO / name, num_episodes=EPISODES, seed=EVALUATION_SEED)
    seconds = agents.results(ZOO / name)['seconds'][-1]
    return (
        f'| `{name}` | {found.env} | {found.checkpoint:,} steps '
        f'| {seconds:.0f} | {found.mean:.1f} ± {found.std:.1f} |\n'
    )


def write(name: str, row: str) -> None:
    """Put a row into the table of the page."""
    text = PAGE.read_text()
    rows = {found[2]: found[1] for found in ROW.finditer(text)}
    rows[name] = row
    table = ''.join(rows[each] for each in NAMES if each in rows)
    start = text.index(HEAD)
    end = text.index('\n\n', start) + 1
    PAGE.write_text(text[:start] + HEAD + RULE + table + text[end:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', default=NAMES)
    for name in parser.parse_args().names:
        train(name)
        row = describe(name)
        print(row, end='', flush=True)
        write(name, row)


if __name__ == '__main__':
    main()
