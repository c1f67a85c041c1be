"""Open files after random changes, as a stranger may send them.

    python -m benchmarks.mutations --inputs 200000 --seed 0

Whatever a file holds, it is opened or refused by a clear error, within two
seconds of computing and a gigabyte of memory. Each reader has a process of its
own, which is watched: after an input that it dies of or does not return from,
which counts as a traceback, another process goes on.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from agents.tools import errors
from benchmarks import mutators

# Limits of what an input may take.
MOST_SECONDS, MOST_MEGABYTES = 2.0, 1000.0

# Seconds until opening a file is given up, and bytes beyond which a process
# gets no more memory, so that the machine stays usable.
PATIENCE = 60.0
MEMORY = 3 * 2**30

# A checkpoint of the run, and its files.
STEP, PLACE = 1000, 'run/checkpoints/000000001000'
TENSORS = 'variables.safetensors'

Open = Callable[[], Any]
Mutator = Callable[[bytes, bytes, random.Random], bytes]


class Reader(NamedTuple):
    """A reader of files.

    Attributes:
        share: Number of its inputs in relation to other readers.
        files: The files that are changed, one at a time.
        mutate: Function that changes one.
        prepare: Function of the directory that returns what opens the file.
    """

    share: float
    files: tuple[str, ...]
    mutate: Mutator
    prepare: Callable[[pathlib.Path], Open]


class Outcome(NamedTuple):
    """What has come of an input: a word or a traceback, and what it took."""

    result: str
    seconds: float
    megabytes: float


def make_files(directory: pathlib.Path) -> None:
    """Write the files that are going to be changed."""
    import gymnasium as gym
    import numpy as np

    import agents
    from agents.exporting import formats
    from agents.parts import policy
    from agents.sweeps import sweep_plan, trials
    from agents.tools.runs import demonstrations
    from agents.tools.workers import wire
    from agents.training import networks, storage

    image = gym.spaces.Box(0, 255, (8, 8, 2), np.uint8)
    numbers = gym.spaces.Box(-1, 1, (3,))
    several = gym.spaces.Dict(image=image, x=numbers, n=gym.spaces.Discrete(4))
    torque = gym.spaces.Box(-2, 2, (2,))
    for _ in agents.train(agents.configs.debug(), directory / 'run'):
        pass
    (directory / 'rich').mkdir()
    pair = several, gym.spaces.MultiDiscrete([2, 3], start=[1, 0])
    (directory / 'rich' / storage.SPACES).write_bytes(wire.dumps(pair))
    count = 40
    steps = demonstrations.Demonstrations(
        np.random.default_rng(0).normal(size=(count, 3)).astype('f'),
        np.zeros((count, 2), 'f'),
        np.ones(count, 'f'),
        np.arange(count) % 10 == 9,
        np.zeros(count, bool),
    )
    demonstrations.write(directory / 'demos.npz', steps, numbers, torque)
    config = agents.configs.ppo(network='recurrent', policy_layers=[8], recurrent_units=4).copy(
        convolutions=[[4, 4, 2]], image_units=8
    )
    made = networks.define(several, torque, config)
    learnt = policy.define(made.policy, several, torque, config, encoder=made.encoder)
    formats.write(learnt, several, {}, directory / 'policy.npz', 'npz')
    (directory / 'sweep').mkdir()
    grid = {'learning_rate': [1e-3, 3e-4]}
    plan = sweep_plan.Plan('debug', None, None, ['steps=100'], [0, 1], grid, {}, 30)
    sweep_plan.save(plan, directory / 'sweep')
    of_points = [
        trials.make_trials(point, {'learning_rate': rate}, plan)
        for point, rate in enumerate(grid['learning_rate'])
    ]
    trials.save([*of_points[0], *of_points[1]], directory / 'sweep')


def readers() -> dict[str, Reader]:
    """The readers by name; their files are those of `make_files`."""
    config, rows = 'run/config.yaml', 'run/progress.csv'
    data = f'{PLACE}/{TENSORS}'
    text, archive = mutators.mutate_text, mutators.mutate_zip
    tensors, plain = mutators.mutate_tensors, mutators.mutate_bytes
    whole = (config, 'run/spaces.bin', data, f'{PLACE}/manifest.json')
    return {
        'settings': Reader(1.2, (config,), text, _settings),
        'spaces': Reader(20, ('rich/spaces.bin',), text, _spaces),
        'manifest': Reader(24, (whole[-1],), text, _manifest),
        'tensors': Reader(44, (data,), tensors, _tensors),
        'restore': Reader(2, (data,), tensors, _restore),
        'normalizer': Reader(6, (data,), tensors, _normalizer),
        'progress': Reader(40, (rows,), text, _progress),
        'results': Reader(0.8, (rows, config), text, _results),
        'plot': Reader(0.05, (rows, config), text, _plot),
        'records': Reader(0.5, (rows,), text, _records),
        'demonstrations': Reader(40, ('demos.npz',), archive, _demonstrations),
        'sweep': Reader(0.4, ('sweep/sweep.yaml',), text, _sweep),
        'trials': Reader(9, ('sweep/trials.json',), text, _trials),
        'run_policy': Reader(12, ('policy.npz',), archive, _policy),
        'load': Reader(0.05, whole, plain, _load),
    }


def _settings(directory: pathlib.Path) -> Open:
    from agents.config import store

    return lambda: store.restore_config(None, directory / 'run')


def _spaces(directory: pathlib.Path) -> Open:
    from agents.training import storage

    return lambda: storage.load_spaces(directory / 'rich')


def _manifest(directory: pathlib.Path) -> Open:
    from agents.tools.runs import checkpoints

    def read() -> None:
        checkpoints.find_best(directory / 'run/checkpoints', lambda _: None)
        checkpoints.verify(directory / PLACE)

    return read


def _tensors(directory: pathlib.Path) -> Open:
    from agents.tools.runs import tensors

    return lambda: tensors.specs(directory / PLACE / TENSORS)


def _restore(directory: pathlib.Path) -> Open:
    from agents.tools.graph.backend import tf
    from agents.tools.runs import tensors
    from agents.tools.runs.saver import Saver

    checkpoint = directory / PLACE
    path = checkpoint / TENSORS
    stored = tensors.read(path, tensors.specs(path))
    variables = {name: tf.Variable(value) for name, value in stored.items()}
    saver = Saver(checkpoint.parent, variables)

    def restore() -> None:
        _seal(checkpoint)
        saver.restore(STEP)

    return restore


def _seal(checkpoint: pathlib.Path) -> None:
    """Let the manifest fit the files, as a stranger would."""
    data = (checkpoint / TENSORS).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    summary = {'bytes': len(data), 'sha256': digest}
    text = json.dumps({'files': {TENSORS: summary}})
    (checkpoint / 'manifest.json').write_text(text)


def _normalizer(directory: pathlib.Path) -> Open:
    from agents.policies import normalizer

    return lambda: normalizer.of_rewards(directory / 'run', STEP, 10.0)


def _progress(directory: pathlib.Path) -> Open:
    from agents.tools.runs import curves
    from agents.training import run_directory

    def read() -> None:
        run_directory.is_trained(directory / 'run')
        for phase in ('train', 'eval'):
            curves.read(directory / 'run', phase)

    return read


def _results(directory: pathlib.Path) -> Open:
    from agents.analysis.results import results

    return lambda: results(directory / 'run')


def _plot(directory: pathlib.Path) -> Open:
    from agents.analysis.plotting import plot

    return lambda: plot([directory / 'run'])


def _records(directory: pathlib.Path) -> Open:
    from agents.tools.runs.records import Records

    return lambda: Records(directory / 'run', 500, ['own']).close()


def _demonstrations(directory: pathlib.Path) -> Open:
    import gymnasium as gym

    from agents.tools.runs import demonstrations

    observ_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Box(-2, 2, (2,))
    file = directory / 'demos.npz'
    return lambda: demonstrations.read(file, observ_space, action_space)


def _sweep(directory: pathlib.Path) -> Open:
    from agents.sweeps import sweep_plan

    def read() -> None:
        plan, doubt = sweep_plan.load(directory / 'sweep')
        sweep_plan.require_trust(plan, directory / 'sweep', doubt, False)
        sweep_plan.check(plan)

    return read


def _trials(directory: pathlib.Path) -> Open:
    from agents.sweeps import trials

    return lambda: trials.load(directory / 'sweep')


def _policy(directory: pathlib.Path) -> Open:
    import numpy as np

    from agents.exporting import run_policy

    observ = {'image': np.zeros((8, 8, 2)), 'x': np.zeros(3), 'n': 1}

    def read() -> None:
        try:
            policy = run_policy.Policy(directory / 'policy.npz')
            for _ in range(2):
                policy(observ)
        except ValueError as error:  # The file knows none of this package.
            raise errors.UserError(str(error)) from error

    return read


def _load(directory: pathlib.Path) -> Open:
    import agents

    checkpoint = directory / PLACE
    manifest = (checkpoint / 'manifest.json').read_bytes()

    def read() -> None:
        if (checkpoint / 'manifest.json').read_bytes() == manifest:
            _seal(checkpoint)
        agents.load(directory / 'run', checkpoint=STEP)

    return read


def open_mutated(
    directory: pathlib.Path, name: str, seed: int, numbers: range, pipe: Connection
) -> None:
    """Open a file after each of its changes and report what came of it."""
    reader = readers()[name]
    sys.stdout = open('/dev/null', 'w')
    warnings.simplefilter('ignore')
    os.fsync = lambda fd: None  # What is written is of no use to anybody.
    read = reader.prepare(directory)
    originals = {
        path: path.read_bytes()
        for path in sorted(directory.rglob('*'))
        if path.is_file() and 'events' not in path.name
    }
    others = [*originals.values()]
    read()  # What is imported or compiled first is no matter of the input.
    _write_files(originals)
    limit = _memory('VmSize') + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe.send(None)
    for number in numbers:
        chance = random.Random(f'{seed} {name} {number}')
        path = directory / chance.choice(reader.files)
        other = chance.choice(others)
        mutated = reader.mutate(originals[path], other, chance)
        _write_files({path: mutated})
        pathlib.Path('/proc/self/clear_refs').write_text('5')
        started = time.process_time()
        try:
            read()
            result = 'accepted'
        except errors.UserError:
            result = 'refused'
        except Exception:
            result = f'input {number} of {name}: {traceback.format_exc()}'
        seconds = time.process_time() - started
        pipe.send(Outcome(result, seconds, _memory('VmHWM') / 1e6))
        _write_files({path: originals[path]})
        if reader.prepare in (_restore, _load, _records):
            _write_files(originals)
    pipe.send(None)


def _write_files(contents: dict[pathlib.Path, bytes]) -> None:
    for path, data in contents.items():
        # Some disks wait where a file is written again, for no new one.
        path.unlink(missing_ok=True)
        path.write_bytes(data)


def _memory(name: str) -> int:
    """Return a number of bytes that the system knows of this process.

    VmHWM is the most memory since clear_refs was written to.
    """
    status = pathlib.Path('/proc/self/status').read_text()
    match = re.search(rf'{name}:\s*(\d+) kB', status)
    return int(match[1]) * 1024 if match else 0


def try_all(directory: pathlib.Path, name: str, count: int, seed: int) -> list[Outcome]:
    """Try so many inputs of a reader."""
    found: list[Outcome] = []
    spawn = multiprocessing.get_context('spawn')
    originals = {p: p.read_bytes() for p in directory.rglob('*') if p.is_file()}
    while len(found) < count:
        ours, theirs = spawn.Pipe(False)
        arguments = directory, name, seed, range(len(found), count), theirs
        process = spawn.Process(target=open_mutated, args=arguments)
        process.start()
        theirs.close()
        with contextlib.suppress(EOFError):
            if not ours.poll(4 * PATIENCE) or ours.recv():
                raise RuntimeError(f'The reader {name} does not start.')
            while ours.poll(PATIENCE) and (result := ours.recv()):
                found.append(result)
        if len(found) < count:
            process.kill()
            process.join()
            if process.exitcode == 1:
                raise RuntimeError('An input cannot be made, see above.')
            text = f'input {len(found)} of {name}: died, {process.exitcode}'
            found.append(Outcome(text, PATIENCE, 0.0))
        process.join()
        _write_files(originals)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--inputs', type=int, default=200_000, help='of all')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', nargs='+', help='names of readers')
    parser.add_argument('--files', help='directory of what make_files wrote')
    options = parser.parse_args()
    failures: list[str] = []
    known = readers()
    whole = sum(reader.share for reader in known.values())
    chosen = {name: known[name] for name in options.only or known}
    print(
        f'{"reader":<15}{"inputs":>8}{"refused":>9}{"accepted":>9}'
        f'{"slowest ms":>12}{"peak MB":>9}{"tracebacks":>12}{"seconds":>9}'
    )
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        if options.files:
            shutil.copytree(options.files, directory, dirs_exist_ok=True)
        else:
            spawn = multiprocessing.get_context('spawn')
            process = spawn.Process(target=make_files, args=(directory,))
            process.start()
            process.join()
        for name, reader in chosen.items():
            started = time.monotonic()
            count = round(options.inputs * reader.share / whole)
            found = try_all(directory, name, count, options.seed)
            results = [outcome.result for outcome in found]
            refused, accepted = map(results.count, ('refused', 'accepted'))
            others = [r for r in results if r not in ('refused', 'accepted')]
            seconds = max(outcome.seconds for outcome in found)
            megabytes = max(outcome.megabytes for outcome in found)
            print(
                f'{name:<15}{count:8}{refused:9}{accepted:9}'
                f'{1e3 * seconds:12.0f}{megabytes:9.0f}{len(others):12}'
                f'{time.monotonic() - started:9.0f}',
                flush=True,
            )
            failures += others
            for number, outcome in enumerate(found):
                slow = outcome.seconds > MOST_SECONDS
                if slow or outcome.megabytes > MOST_MEGABYTES:
                    failures.append(f'input {number} of {name}: {outcome}')
    shown: dict[str, list[str]] = {}
    for failure in failures:
        shown.setdefault(failure.strip().rpartition('\n')[2], []).append(failure)
    for alike in shown.values():
        print(f'{len(alike)} such:', alike[0][:200], '...', alike[0][-700:])
    return bool(failures)


if __name__ == '__main__':
    sys.exit(main())
