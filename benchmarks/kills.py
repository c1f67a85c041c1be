"""Trainings killed at random moments, and what becomes of them.

    python -m benchmarks.kills --count 200

Starts the command, kills it with SIGKILL, in turn at any moment of its start
and while a checkpoint is being written, and starts it again, which resumes
it. Every start has to go on from the last checkpoint that was whole, or say
what is missing, or begin anew where there had not been a checkpoint. What the
last checkpoint of a run was is remembered here, so that one that is lost, by
the kill or by the next start, is counted as wrong. So is the best one.

With `--signals` every command gets signals that it can handle instead, see
`benchmarks.signals`.
"""

import argparse
import collections
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from agents.tools.runs import checkpoints
from agents.tools.runs.checkpoints import Scored
from agents.training import storage
from benchmarks import signals

START_SECONDS = 5.0
SAVE_SECONDS = 0.02

# A run of saves: an evaluation and a checkpoint every 200 steps.
CONFIG = """
from agents import configs

def saves():
    return configs.debug().copy(
        steps=200_000, eval_every=200, eval_episodes=1, max_length=10)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how the starts ended; returns how many were wrong."""
    parser = argparse.ArgumentParser(prog='python -m benchmarks.kills')
    parser.add_argument('--count', type=int, default=200)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--signals', type=int, help='signals, not kills')
    parser.add_argument('--commands', nargs='+', default=[])
    options = parser.parse_args(arguments)
    if options.signals is not None:
        return signals.run(options.signals, options.seed, options.commands)
    choice = random.Random(options.seed)
    outcomes: collections.Counter = collections.Counter()
    number, highest, wrong, best = 0, None, 0, None
    with tempfile.TemporaryDirectory() as home:
        pathlib.Path(home, 'saves.py').write_text(CONFIG)
        for count in range(options.count):
            directory = pathlib.Path(home, 'logdir', f'{number}-saves')
            output = _start_and_kill(home, directory, count % 2 == 1, choice)
            last = storage.last_checkpoint(directory)
            outcome, fits = judge(output, highest, last)
            found = _find_best(directory)
            if best and (not found or found.score < best.score):
                outcome, fits = 'the best checkpoint is lost', False
            best = found or best
            outcomes[outcome] += 1
            if not fits:
                wrong += 1
                steps = f'{highest} before and {last} after'
                print(f'{directory.name}, checkpoint {steps}:\n{output}')
            # A new run every so often, since starts differ from resumes.
            if outcome.startswith('refused') or choice.random() < 0.2:
                number, highest, best = number + 1, None, None
            elif last is not None:
                highest = max(last, highest or 0)
    for outcome, times in outcomes.most_common():
        print(f'{times:>5}  {outcome}')
    print(f'{wrong:>5}  wrong')
    return wrong


def _find_best(directory: pathlib.Path) -> Scored | None:
    """The best checkpoint there is, which has to be whole."""
    warned: list[str] = []
    home = directory / storage.CHECKPOINTS
    found = checkpoints.find_best(home, warned.append)
    return None if warned else found


def judge(output: str, highest: int | None, last: int | None) -> tuple[str, bool]:
    """Say what a start came to, and whether that is right.

    Args:
        output: What it said until it was killed.
        highest: Step of the last checkpoint that the run has ever had before
            it, None if it had none.
        last: Step of the last checkpoint that there is after it.
    """
    if highest is not None and (last is None or last < highest):
        return 'a checkpoint is lost', False
    error = re.search(r'^error: (.*)', output, re.M)
    resumed = re.search(r'resumed at step ([\d,]+)', output)
    if 'Traceback' in output:
        return 'a traceback', False
    if error:
        message = re.sub(r'\S*/\S*', '…', error[1])
        return f'refused: {message}', highest is None
    if resumed:
        step = int(resumed[1].replace(',', ''))
        return 'resumed', step == highest
    if 'from the beginning' in output:
        return 'from the beginning', highest is None
    return 'killed before it could tell', True


def _start_and_kill(home: str, directory: pathlib.Path, saving: bool, choice: random.Random) -> str:
    """Train until a random moment of the start or of a save."""
    command = [
        *(sys.executable, '-m', 'agents.scripts.train'),
        '--config=saves.py:saves',
        f'--timestamp={directory.name.partition("-")[0]}',
    ]
    # Not a pipe, which would be full before anybody reads it.
    with tempfile.TemporaryFile('w+') as said:
        process = subprocess.Popen(command, cwd=home, stdout=said, stderr=subprocess.STDOUT)
        if saving:
            _await_save(process, directory / storage.CHECKPOINTS, choice)
            time.sleep(SAVE_SECONDS * choice.random())
        else:
            time.sleep(START_SECONDS * choice.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        said.seek(0)
        return said.read()


def _await_save(process: subprocess.Popen, home: pathlib.Path, choice: random.Random) -> None:
    """Wait until one of the next checkpoints begins to be written."""
    for _ in range(choice.randint(1, 20)):
        seen = _unfinished(home)
        while process.poll() is None and _unfinished(home) <= seen:
            time.sleep(0.0005)


def _unfinished(home: pathlib.Path) -> set[str]:
    if not home.is_dir():
        return set()
    return {path.name for path in home.iterdir() if path.name[0] == '.'}


if __name__ == '__main__':
    sys.exit(main())
