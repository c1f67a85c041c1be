"""Trials of a sweep: their states, and the processes that run them."""

import contextlib
import csv
import dataclasses
import fcntl
import functools
import io
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.config import plain_yaml
from agents.sweeps import search
from agents.sweeps.sweep_plan import FILE as PLAN
from agents.sweeps.sweep_plan import Plan
from agents.terminal import console, launcher
from agents.tools import cpu, errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import curves, files
from agents.tools.workers import processes

FILE, TABLE, LOGS = 'trials.json', 'trials.csv', 'logs'

# What becomes of a trial.
WAITING, RUNNING, FINISHED, FAILED, PRUNED = STATES = (
    'waiting',
    'running',
    'finished',
    'failed',
    'pruned',
)

# Limits for what is told of logs, and for names.
TAIL_BYTES = 20_000
MOST_CHARACTERS = 300

# Limit for what is known of trials, which may come from strangers: that of as
# many as there may be.
MAX_BYTES = 2**23
LONGEST_NAME = 100

# How commands tell what went wrong.
ERROR = 'error: '

# How long a trial that is stopped may take to save before it is killed.
PATIENCE = 120.0


@dataclasses.dataclass
class Trial:
    """Training of a sweep.

    Attributes:
        name: Name of the directory of its run.
        point: Number of its point.
        seed: Seed.
        settings: Settings that differ between points.
        state: State.
        reason: Reason of a failure.
    """

    name: str
    point: int
    seed: int
    settings: Mapping[str, Any]
    state: str = WAITING
    reason: str = ''


def make_trials(point: int, settings: Mapping[str, Any], plan: Plan) -> list[Trial]:
    """Make the trials of a point, one for each seed."""
    exact = search.describe(settings, '-') or plan.name
    label = re.sub(r'[^\w.=+@-]+', '_', re.sub(r'[][{} ]', '', exact))
    # Others might be called the same.
    if plan.search or label != exact or len(label) > LONGEST_NAME:
        label = f'{point:03}-{label[:LONGEST_NAME]}'
    return [Trial(f'{label}-seed={seed}', point, seed, settings) for seed in plan.seeds]


def save(trials: Sequence[Trial], directory: pathlib.Path) -> None:
    values = [{**dataclasses.asdict(each), 'settings': simplify(each.settings)} for each in trials]
    files.write(directory / FILE, json.dumps(values, indent=1).encode())


def load(directory: pathlib.Path) -> list[Trial]:
    """Read the states of trials; runs no code."""
    path = directory / FILE
    if not os.path.lexists(path):
        return []
    names = {field.name for field in dataclasses.fields(Trial)}
    try:
        values = files.parse_json(files.read(path, MAX_BYTES), MAX_BYTES)
        if not isinstance(values, list):
            raise ValueError('it has no list')
        for each in values:
            _require_trial(each, names)
        _require_all_points(values)
    except ValueError as error:
        if isinstance(error, errors.UserError):
            raise
        raise errors.ConfigError(
            f'{path} does not hold trials: {error}. Mend it, or begin another '
            'sweep by another --name.'
        ) from error
    return [Trial(**each) for each in values]


def _require_trial(value: Any, names: set[str]) -> None:
    if not isinstance(value, dict) or set(value) != names:
        raise ValueError(f'expected {", ".join(sorted(names))} of each')
    fits = {
        'name': isinstance(value['name'], str)
        and re.fullmatch(r'\w[\w.=+@-]{0,200}', value['name']),
        'point': type(value['point']) is int and value['point'] >= 0,
        'seed': type(value['seed']) is int,
        'settings': isinstance(value['settings'], dict),
        'state': value['state'] in STATES,
        'reason': isinstance(value['reason'], str) and value['reason'].isprintable(),
    }
    for key, fit in fits.items():
        if not fit:
            shown = errors.shorten(repr(value[key]), 100)
            raise ValueError(f'the {key} of one is {shown}')


def _require_all_points(values: Sequence[Mapping[str, Any]]) -> None:
    trials = [(each['point'], each['seed']) for each in values]
    if len({*trials}) < len(trials):
        raise ValueError('it has one twice')
    points = {point for point, _ in trials}
    if points != {*range(len(points))}:
        raise ValueError('those of a point before others are missing')


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: plain_yaml.simplify(each) for key, each in settings.items()}


def write_table(trials: Sequence[Trial], directory: pathlib.Path) -> None:
    """Write the states of trials as comma-separated values."""
    keys = list(dict.fromkeys(key for each in trials for key in each.settings))
    text = io.StringIO()
    table = csv.writer(text)
    columns = ['score', 'score_std', 'best', 'steps', 'seconds']
    table.writerow(['trial', *keys, 'seed', 'state', *columns, 'reason'])
    for each in trials:
        settings = simplify(each.settings)
        curve = read_curve(directory / each.name)
        numbers: list[Any] = [''] * len(columns)
        if curve is not None:
            numbers = [
                f'{curve.scores[-1]:.6g}',
                f'{curve.deviations[-1]:.6g}',
                f'{curve.scores.max():.6g}',
                int(curve.steps[-1]),
                f'{curve.seconds[-1]:.6g}',
            ]
        values = [settings.get(key, '') for key in keys]
        table.writerow([each.name, *values, each.seed, each.state, *numbers, each.reason])
    files.write(directory / TABLE, text.getvalue().encode())


def read_curve(directory: pathlib.Path) -> curves.Curve | None:
    """Read the evaluations of a run, if it has any yet."""
    try:
        curve = curves.read(directory, 'eval')
    except errors.UserError:  # There is none, or it is just being written.
        return None
    return curve if len(curve.steps) else None


@contextlib.contextmanager
def alone(directory: pathlib.Path) -> Iterator[int]:
    """Wait until trials of a killed sweep have ended.

    They end with the sweep, but save before.

    Returns:
        Descriptor of a lock that trials hold while they run.
    """
    give_up = time.monotonic() + PATIENCE
    with files.open_lock(directory / PLAN) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > give_up:
                    raise errors.ConfigError(
                        f'Trials of {directory} still run, though the sweep '
                        'that started them was killed. End them first.'
                    ) from None
            time.sleep(0.1)
        yield file.fileno()


class Runner:
    """Runs trials in parallel processes.

    Args:
        directory: Directory of the sweep.
        plan: Plan.
        config: Settings that all trials share.
        jobs: Number of parallel processes; each has its share of the cores.
        lock: Descriptor that they inherit, see `alone`.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        plan: Plan,
        config: AttrDict,
        jobs: int,
        lock: int | None = None,
    ):
        self._inherited = () if lock is None else (lock,)
        self._directory = directory
        self._plan = plan
        self._config = config
        self._jobs = jobs
        self._slots: dict[int, tuple[Trial, subprocess.Popen]] = {}
        self._given_up: set[str] = set()

    @property
    def jobs(self) -> int:
        return self._jobs

    @property
    def running(self) -> list[Trial]:
        return [trial for trial, _ in self._slots.values()]

    @property
    def is_full(self) -> bool:
        return len(self._slots) == self._jobs

    def start(self, trial: Trial) -> None:
        """Start a trial, or resume it from its last checkpoint."""
        slot = min({*range(self._jobs)} - {*self._slots})
        logs = self._directory / LOGS
        files.make_directory(logs)
        with (
            open_log(logs / f'{trial.name}.out') as output,
            open_log(logs / f'{trial.name}.err') as problems,
        ):
            process = subprocess.Popen(
                self._command(trial),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=problems,
                env=_environment(),
                # Signals of the terminal come by this process.
                start_new_session=True,
                pass_fds=self._inherited,
                preexec_fn=functools.partial(_prepare, slot, self._jobs),
            )
        trial.state, trial.reason = RUNNING, ''
        self._slots[slot] = trial, process

    def finished(self) -> Iterator[Trial]:
        """Return the trials that have ended since the last call."""
        for slot, (trial, process) in list(self._slots.items()):
            if process.poll() is not None:
                del self._slots[slot]
                self._take_result(trial, process.returncode)
                yield trial

    def give_up(self, trial: Trial) -> None:
        """Stop a running trial that is pruned."""
        self._given_up.add(trial.name)
        self._signal([p for t, p in self._slots.values() if t is trial])

    def stop(self) -> None:
        """Let all trials save and end."""
        running = [process for _, process in self._slots.values()]
        try:
            self._signal(running)
            give_up = time.monotonic() + PATIENCE
            while any(process.poll() is None for process in running):
                if time.monotonic() > give_up:
                    break
                time.sleep(0.05)
        finally:
            for process in running:
                processes.end(process)
            self._slots.clear()

    def _signal(self, running: Sequence[subprocess.Popen]) -> None:
        for process in running:
            if process.poll() is None:
                # Not SIGINT, which a Python that is just starting may drop.
                process.send_signal(signal.SIGTERM)

    def _command(self, trial: Trial) -> list[str]:
        """Return the command line of a trial."""
        command = launcher.command_of('agents.scripts.train')
        for name in ('config', 'env', 'algorithm'):
            value = getattr(self._plan, name)
            if value is not None:
                command.append(f'--{name}={value}')
        command += [f'--set={text}' for text in self._plan.set]
        if self._config.num_workers is None:
            workers = max(1, len(cpu.cores()) // self._jobs)
            command.append(f'--set=num_workers={workers}')
        for key, value in simplify(trial.settings).items():
            text = plain_yaml.format_value(value, in_one_line=True)
            command.append(f'--set={key}={text}')
        command.append(f'--seed={trial.seed}')
        return [*command, f'--logdir={self._directory}', f'--name={trial.name}']

    def _take_result(self, trial: Trial, code: int) -> None:
        """Find out the result of a trial that has ended."""
        log = self._directory / LOGS / f'{trial.name}.err'
        if not code:
            trial.state = FINISHED
        elif trial.name in self._given_up:
            trial.state = PRUNED
        else:
            trial.state, trial.reason = FAILED, explain(code, log)
        if log.exists() and not log.stat().st_size:
            log.unlink()


def open_log(path: pathlib.Path) -> Any:
    """Open a log for appending."""
    files.open_lock(path).close()  # Makes it, and refuses links.
    return open(path, 'ab')


def explain(code: int, log: pathlib.Path) -> str:
    """Return why a process failed, in one line."""
    try:
        with files.opened(log, 2**40) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode(errors='replace')
    except errors.UserError:
        text = ''
    if code < 0:
        known = {each.value: each.name for each in signal.Signals}
        name = known.get(-code, f'signal {-code}')
        memory = '; is there too little memory?' if name == 'SIGKILL' else ''
        return f'killed by {name}{memory}'
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return f'it ended with exit code {code} and said nothing'
    told = [line for line in lines if line.startswith(ERROR)]
    reason = told[-1].removeprefix(ERROR) if told else lines[-1]
    if reason.endswith(':'):  # A traceback follows.
        reason = f'{reason} {lines[-1]}'
    return errors.shorten(errors.escape(reason), MOST_CHARACTERS)


def _environment() -> dict[str, str]:
    """Return the environment variables of a trial, which has no terminal."""
    return {key: value for key, value in os.environ.items() if key != console.TERMINAL}


def _prepare(slot: int, jobs: int) -> None:
    """Set up the new process: it ends with this one, on a share of the cores."""
    processes.end_with_parent(signal.SIGTERM)
    cpu.take_share(slot, jobs)


def share_done(trial: Trial, directory: pathlib.Path, steps: int) -> float:
    """Return the fraction of its steps that a trial has taken."""
    if trial.state in (FINISHED, FAILED, PRUNED):
        return 1.0
    curve = read_curve(directory / trial.name)
    return 0.0 if curve is None else min(1.0, curve.steps[-1] / steps)


def final_score(trial: Trial, directory: pathlib.Path) -> float:
    """Return the score of its last evaluation, NaN if there is none."""
    curve = read_curve(directory / trial.name)
    return math.nan if curve is None else float(curve.scores[-1])
