"""Opens the files of a run after random changes, as a stranger may send them.

python -m benchmarks.mutations --count 2000 --seed 0

Whatever a file holds, it is opened or refused by a clear error, soon and in
little memory. A process of its own does so, and is watched: one that dies or
does not return is counted, and another goes on after that change.
"""

import argparse
import contextlib
import multiprocessing
import pathlib
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from agents.scripts import (
    config_file,
    configs,
    run_directory,
    utility,
)
from agents.tools import errors
from agents.tools.runs import checkpoints, curves, progress

# Seconds until opening a file is given up.
PATIENCE = 20.0

NUMBERS = [
    b'-1',
    b'0',
    b'1e400',
    b'.nan',
    b'NaN',
    b'1e12',
    b'7' * 18,
    b'9' * 400,
]
TEXTS = [
    *[b'[' * 100_000, b'{"a":' * 9_000, b'{a: ' * 999, b',' * 20_000],
    b'"' + b'\\"' * 100_000 + b'\n',
    *[b'\0', b'\n', b'\xff\xfe', b'"', b': ', b'*a', b'!!x ', b'a:b', b'null'],
]


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A copy of a file that differs in one place to three."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        start, end = sorted(chance.choices(range(len(data) + 1), k=2))
        if chance.random() < 0.7:
            end = min(end, start + chance.randrange(1, 12))
        part = data[start:end]
        splice = chance.randrange(len(other))
        changed = chance.choice(
            [
                bytes(byte ^ 1 << chance.randrange(8) for byte in part),
                b'',
                part * chance.choice([2, 3, 50]),
                chance.randbytes(len(part)),
                other[splice : splice + len(part)],
                chance.choice(TEXTS),
                chance.choice(NUMBERS),
                re.sub(rb'\d+', chance.choice(NUMBERS), part),
            ]
        )
        end = len(data) if chance.random() < 0.05 else end  # Cut short.
        data = data[:start] + changed + data[end:]
    return data


def readers(run: pathlib.Path) -> dict[str, tuple[str, Callable[[], Any]]]:
    """By name, a file of a run and what opens it."""
    from agents.tools.graph.backend import tf
    from agents.tools.runs import bundle
    from agents.tools.runs.saver import Saver

    checkpoint = max((run / utility.CHECKPOINTS).iterdir())
    prefix = checkpoint / checkpoints.BUNDLE
    stored = bundle.variables(prefix)
    values = list(bundle.values(prefix, stored.values()))
    variables = dict(zip(stored, map(tf.Variable, values), strict=True))
    saver = Saver(checkpoint.parent, variables)

    def restore() -> None:
        saver.restore(int(checkpoint.name))

    def resealed() -> None:
        (checkpoint / checkpoints.MANIFEST).unlink()
        checkpoints.seal(checkpoint)
        restore()

    def results() -> None:
        run_directory.is_trained(run)
        for phase in ('train', 'eval'):
            curves.read(run, phase)

    place = f'{utility.CHECKPOINTS}/{checkpoint.name}'
    index, data = [f'{place}/{name}' for name in checkpoints.FILES]
    return {
        'config.yaml': (
            config_file.CONFIG_FILE,
            lambda: config_file.restore_config(None, run),
        ),
        'spaces.bin': (utility.SPACES, lambda: utility.load_spaces(run)),
        'progress.csv': (progress.FILE, results),
        'manifest': (f'{place}/{checkpoints.MANIFEST}', restore),
        'index': (index, restore),
        'index, resealed': (index, resealed),
        'data': (data, restore),
        'data, resealed': (data, resealed),
    }


def open_mutated(
    run: pathlib.Path, name: str, seed: int, numbers: range, pipe: Connection
) -> None:
    """Open a file after each of its changes and tell what came of it."""
    path, read = readers(run)[name]
    manifest = max(run.glob(f'*/*/{checkpoints.MANIFEST}'))
    original, sealed = (run / path).read_bytes(), manifest.read_bytes()
    others = [p.read_bytes() for p in sorted(run.rglob('*.*')) if p.is_file()]
    pipe.send(('ready', 0.0, 0.0))
    for number in numbers:
        chance = random.Random(f'{seed} {name} {number}')
        mutated = mutate(original, chance.choice(others), chance)
        (run / path).write_bytes(mutated)
        started = time.perf_counter()
        try:
            read()
            outcome = 'accepted'
        except errors.UserError:
            outcome = 'refused'
        except Exception:
            outcome = traceback.format_exc()
        seconds = time.perf_counter() - started
        memory = peak_megabytes()
        pipe.send((outcome, seconds, memory))
        (run / path).write_bytes(original)
        manifest.write_bytes(sealed)
    pipe.send(None)


def peak_megabytes() -> float:
    """The most memory that this process has had, and not its parent."""
    status = pathlib.Path('/proc/self/status').read_text()
    match = re.search(r'VmHWM:\s*(\d+) kB', status)
    return int(match[1]) / 1e3 if match else float('nan')


def try_all(run: pathlib.Path, name: str, count: int, seed: int) -> list:
    """What came of each change: a word or an error, seconds, megabytes."""
    found: list[tuple[str, float, float]] = []
    spawn = multiprocessing.get_context('spawn')
    originals = {p: p.read_bytes() for p in run.rglob('*.*') if p.is_file()}
    while len(found) < count:
        ours, theirs = spawn.Pipe(False)
        rest = range(len(found), count)
        arguments = run, name, seed, rest, theirs
        process = spawn.Process(target=open_mutated, args=arguments)
        process.start()
        theirs.close()
        with contextlib.suppress(EOFError):
            ours.poll(60) and ours.recv()
            while ours.poll(PATIENCE) and (result := ours.recv()):
                found.append(result)
        if len(found) < count:
            process.kill()
            process.join()
            found.append((f'died: {process.exitcode}', PATIENCE, 0.0))
        process.join()
        for path, data in originals.items():
            path.write_bytes(data)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', help='a name of the table')
    options = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        run = pathlib.Path(directory)
        from agents.scripts.training import train

        for _ in train(configs.debug(), run):
            pass
        print(
            'file             changes accepted refused other  slowest   memory'
        )
        for name in readers(run):
            if options.only not in (None, name):
                continue
            found = try_all(run, name, options.count, options.seed)
            outcomes = [outcome for outcome, _, _ in found]
            accepted, refused = map(outcomes.count, ('accepted', 'refused'))
            others = [o for o in outcomes if o not in ('accepted', 'refused')]
            failures += others
            slowest = max(seconds for _, seconds, _ in found)
            memory = max(memory for _, _, memory in found)
            print(
                f'{name:<16} {len(found):7} {accepted:8} {refused:7} '
                f'{len(others):5} {slowest:6.2f} s {memory:5.0f} MB',
                flush=True,
            )
    for failure in sorted(set(failures)):
        print(failure, file=sys.stderr)
    return bool(failures)


if __name__ == '__main__':
    sys.exit(main())
