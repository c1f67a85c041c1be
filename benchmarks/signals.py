"""Signals at random moments of every command, and what becomes of it.

    python -m benchmarks.kills --signals 60

Every command has to end with the status of the signal (or 0, if it was done
before) and at most one message about it, without a traceback and without a
line of the launcher of ranks. It must leave no process, no temporary file and
no shared memory, and a run that has a checkpoint must load.
"""

import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import agents
from agents.tools import errors
from agents.training import storage

# Seconds within which the signal comes, and within which the command ends.
LATEST, PATIENCE = 15.0, 60.0

# Seconds until processes that are being ended, and their memory, are gone.
GRACE = 5.0

TRAIN = [
    'train',
    '--config=cartpole_native',
    *('--set', 'policy_layers=[16]', '--set', 'value_layers=[16]'),
    *('--set', 'steps=100000000', '--set', 'eval_every=20000'),
]
RUN = '--logdir=logdir/run'
COMMANDS = {
    'train': [*TRAIN, '--name=new-train'],
    'ranks': [*TRAIN, '--name=new-ranks', '--nprocs=2'],
    'workers': ['train', '--config=debug', '--name=new-workers', '--set', 'steps=10000000'],
    'sweep': ['sweep', *TRAIN[1:], '--name=new-sweep', '--seeds=0,1'],
    'evaluate': ['evaluate', RUN, '--num_episodes=100000'],
    'visualize': ['visualize', RUN, '--num_episodes=1000', '--outdir=out'],
    'record': ['record', RUN, '--num_episodes=100000', '--outfile=out/r.npz'],
    'export': ['export', RUN, '--outfile=out/policy'],
    'check': ['check', '--env=CartPole-v1', '--steps=1000000'],
    'plot': ['plot', 'logdir', '--outfile=out/curve.png'],
}
KINDS: Mapping[str, Sequence[int]] = {
    'SIGINT': [signal.SIGINT],
    'SIGTERM': [signal.SIGTERM],
    'SIGHUP': [signal.SIGHUP],
    'SIGINT twice': [signal.SIGINT, signal.SIGINT],
}
UNWANTED = re.compile(r'^(Traceback|=====|Abort\(|\[mpiexec).*', re.M)


def run(count: int, seed: int, names: Sequence[str] = ()) -> int:
    """Print a table by command; returns how many signals ended wrongly."""
    choice = random.Random(seed)
    table: dict[str, collections.Counter] = {}
    wrong = 0
    # Of a shell's background process it is ignored, as by what that starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as place:
        home = pathlib.Path(place)
        (home / 'tmp').mkdir()
        subprocess.run(
            [*_command(COMMANDS['workers'][:2]), *('--name=run', '--set', 'steps=1000', '--quiet')],
            cwd=home,
            check=True,
        )
        for number in range(count):
            name = [*(names or COMMANDS)][number % len(names or COMMANDS)]
            kind = choice.choice([*KINDS])
            delay = LATEST * choice.random()
            outcome, problems, text = _try(home, name, kind, delay, choice)
            table.setdefault(name, collections.Counter())[outcome] += 1
            print(f'{number + 1}: {name}, {outcome}', file=sys.stderr)
            if problems:
                wrong += 1
                print(f'{name}, {kind} after {delay:.1f} s, {outcome}:')
                print(*(f'  {problem}' for problem in problems), sep='\n')
                print(text, flush=True)
    for name, outcomes in table.items():
        shown = ', '.join(f'{n} × {key}' for key, n in outcomes.most_common())
        print(f'{name:10} {sum(outcomes.values()):3}  {shown}')
    print(f'{wrong} of {count} wrong')
    return wrong


def _command(arguments: Sequence[str]) -> list[str]:
    name, *rest = arguments
    return [sys.executable, '-m', f'agents.scripts.{name}', *rest]


def _try(
    home: pathlib.Path, name: str, kind: str, delay: float, choice: random.Random
) -> tuple[str, list[str], str]:
    """Run a command and signal it; returns outcome, problems and output."""
    token = f'{os.getpid()}-{choice.getrandbits(64)}'
    environ = {**os.environ, 'TMPDIR': str(home / 'tmp'), 'SIGNALS': token}
    (home / 'out').mkdir(exist_ok=True)
    memory = {*os.listdir('/dev/shm')}
    with tempfile.TemporaryFile('w+') as said:
        process = subprocess.Popen(
            _command(COMMANDS[name]), cwd=home, stdout=said, stderr=subprocess.STDOUT, env=environ
        )
        time.sleep(delay)
        for position, number in enumerate(KINDS[kind]):
            time.sleep(choice.random() * (position > 0))
            process.send_signal(number)
        problems = []
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            problems.append(f'it still runs after {PATIENCE:g} s')
            process.kill()
            code = process.wait()
        said.seek(0)
        text = said.read()
    # A process that a signal ends before it handles any has no status.
    status = 128 - code if code < 0 else code
    if status not in (0, 128 + KINDS[kind][0]):
        problems.append(f'status {status}')
    problems += [found[0] for found in UNWANTED.finditer(text)]
    if len(re.findall(r'^SIG[A-Z]+:', text, re.M)) > 1:
        problems.append('more than one message')
    problems += _find_remains(home, token, memory)
    problems += _load_runs(home)
    return f'{kind} → {status}', problems, text


def _find_remains(home: pathlib.Path, token: str, memory: set[str]) -> list[str]:
    """Wait for the end of everything, and name what is left."""
    give_up = time.monotonic() + GRACE
    while True:
        left = [f'process {pid}' for pid in _find_processes(token)]
        left += [f'{path} is left' for path in (home / 'tmp').iterdir()]
        left += [
            f'{path} is left'
            for path in home.glob('[lo]*/**/.*')
            if path.suffix in ('.new', '.old')
        ]
        new = {*os.listdir('/dev/shm')} - memory
        if new:  # Others may have made them.
            maps = ''.join(_read(path) for path in pathlib.Path('/proc').glob('*/maps'))
            left += [f'/dev/shm/{x} is left' for x in new if x not in maps]
        if not left or time.monotonic() > give_up:
            return left
        time.sleep(0.2)


def _find_processes(token: str) -> list[int]:
    """Processes that descend from a command, whoever is their parent."""
    return [
        int(path.parent.name)
        for path in pathlib.Path('/proc').glob('[0-9]*/environ')
        if f'SIGNALS={token}' in _read(path)
    ]


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(errors='replace')
    except OSError:
        return ''


def _load_runs(home: pathlib.Path) -> list[str]:
    """Load all runs that have a checkpoint; returns what went wrong."""
    problems = []
    for checkpoints in home.glob(f'logdir/**/{storage.CHECKPOINTS}'):
        if storage.last_checkpoint(checkpoints.parent) is not None:
            try:
                agents.load(checkpoints.parent)
            except errors.UserError as error:
                problems.append(str(error))
    return problems
