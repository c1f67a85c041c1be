"""Sweeps: trainings with several seeds, a grid of settings, or a search."""

import contextlib
import math
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agents.config import lookup
from agents.sweeps import search, sweep_plan, sweep_result, trials
from agents.sweeps.sweep_plan import Plan
from agents.sweeps.trials import Trial
from agents.terminal import console
from agents.tools import cpu, errors
from agents.tools.attr_dict import AttrDict
from agents.training import run_directory

# How often to look for trials that have ended, and at the scores of others.
POLL_SECONDS = 0.1
LOOK_SECONDS = 2.0

# How much of a trial has to be done to tell how long others take.
ENOUGH = 0.1


def sweep(
    config: str | None = None,
    seeds: Sequence[int] | None = None,
    grid: Mapping[str, Sequence[Any] | str] | None = None,
    search: Mapping[str, str] | None = None,
    trials: int = sweep_plan.POINTS,
    jobs: int | None = None,
    logdir: str | pathlib.Path = './logdir',
    name: str | None = None,
    changes: Sequence[str] = (),
    env: str | None = None,
    algorithm: str | None = None,
    say: console.Console | None = None,
    trust: bool = False,
) -> sweep_result.Sweep:
    """Train with several seeds and settings, in parallel processes.

    An earlier sweep in the same directory is resumed: finished trials are kept, and interrupted
    ones continue from their last checkpoints. A trial that fails does not end the others.

    Args:
        config: Name of a config, or file.py:function. Without it, and without `env`, the sweep in
            `logdir` is resumed.
        seeds: Seeds of each setting, by default that of the config.
        grid: Values of settings, all combinations of which are tried.
        search: Ranges of settings to search instead, by name: `LOW..HIGH`, `log:LOW..HIGH` or
            values separated by commas; needs Optuna.
        trials: Number of settings that a search tries.
        jobs: Number of parallel processes, by default one per core.
        logdir: Directory for the directory of the sweep.
        name: Name of that directory, by default `sweep-` and the config.
        changes: Texts `key=value` that replace settings of all trials.
        env: Environment, as in `agents train --env`.
        algorithm: Algorithm if there is no config.
        say: Console for progress, by default none.
        trust: Run code that the sweep in `logdir` names though this user has not signed it on this
            machine.
    """
    if name:
        run_directory.require_name(name, logdir)
    for key, value in (('config', config), ('env', env)):
        if not isinstance(value, str | None):
            raise errors.ConfigError(
                f'{key} must be a name, such as file.py:function, got an '
                f'object of type {type(value).__name__}. Each trial is a '
                'process, which looks it up; changes=[...] replaces settings.'
            )
    logdir = pathlib.Path(logdir).absolute()
    plan, directory = None, logdir / (name or '')
    if config or env:
        plan = Plan(
            config and lookup.absolute(config),
            env and lookup.absolute(env),
            algorithm,
            list(changes),
            [int(seed) for seed in seeds or []],
            {},
            dict(search or {}),
            trials if search else 1,
        )
        plan = sweep_plan.complete(plan, grid or {})
        directory = logdir / (name or f'sweep-{plan.name}')
    elif seeds or grid or search or changes or algorithm:
        if sweep_plan.is_in(directory):
            raise errors.ConfigError(
                'The steps, seeds and other settings of a sweep under way '
                'cannot be changed. Leave them out to go on with '
                f'{directory}, or begin a new one with --config or --env.'
            )
        raise errors.ConfigError('A new sweep needs --config or --env.')
    return _run(directory, plan, jobs, say or console.silent(), trust)


def _run(
    directory: pathlib.Path, plan: Plan | None, jobs: int | None, say: console.Console, trust: bool
) -> sweep_result.Sweep:
    """Run the remaining trials of a directory."""
    jobs = len(cpu.cores()) if jobs is None else jobs
    if jobs < 1:
        raise errors.ConfigError(
            f'jobs must be at least 1, got {jobs}. Leave it out for one per core.'
        )
    with contextlib.ExitStack() as stack:
        plan, config, begun = _open(directory, plan, stack, trust)
        lock = stack.enter_context(trials.alone(directory))
        runner = trials.Runner(directory, plan, config, jobs, lock)
        work = _Work(directory, plan, config, runner, begun, say)
        try:
            work.run()
        except KeyboardInterrupt:
            ended = f'agents sweep --logdir={console.short(directory)} goes on'
            told = f'what was begun is saved; {ended}'
            say.say('stopped', told, wrap=False)
            raise
        return sweep_result.summarize(directory, plan, config, work.trials, say)


def _open(
    directory: pathlib.Path, plan: Plan | None, stack: contextlib.ExitStack, trust: bool
) -> tuple[Plan, AttrDict, list[Trial]]:
    """Lock the directory of a sweep, and read or write its plan.

    Returns:
        Plan, settings that all trials share, and trials from before.
    """
    there = sweep_plan.is_in(directory)
    if not there:
        if plan is None:
            raise errors.ConfigError(
                f'There is no sweep in {directory} to go on with. A new one '
                'needs --config or --env.'
            )
        with contextlib.suppress(OSError):
            if {*os.listdir(directory)} - {run_directory.LOCK}:
                raise errors.ConfigError(
                    f'{directory} holds other things than a sweep. Choose another --name.'
                )
    if there:
        saved, doubt = sweep_plan.load(directory)
        if plan is None:
            sweep_plan.require_trust(saved, directory, doubt, trust)
        else:
            sweep_plan.require_same(plan, saved, directory)
        plan = saved
    assert plan is not None
    config = sweep_plan.check(plan)
    stack.enter_context(run_directory.locked(directory))
    if not there:
        sweep_plan.save(plan, directory)
    return plan, config, trials.load(directory)


class _Work:
    """Runs the trials of a sweep, and prints progress.

    Args:
        directory: Directory of the sweep.
        plan: Plan.
        config: Settings that all trials share.
        runner: Runs trials.
        begun: Trials from before.
        say: Console for progress.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        plan: Plan,
        config: AttrDict,
        runner: trials.Runner,
        begun: Sequence[Trial],
        say: console.Console,
    ):
        self.trials: list[Trial] = []
        self._directory = directory
        self._plan = plan
        self._config = config
        self._runner = runner
        self._say = say
        self._before = {(each.point, each.seed): each for each in begun}
        self._told: set[int] = set()
        self._reported: dict[int, int] = {}
        self._given_up: set[int] = set()
        self._points = sweep_plan.make_points(plan, config, self._results(begun))
        self._began = time.monotonic()
        self._at_start: dict[str, float] = {}
        self._view: console.View | None = None
        say.show(lambda: self._view)

    def run(self) -> None:
        """Run all trials."""
        self._tell_plan()
        looked = self._began
        try:
            while self._start() or self._runner.running:
                time.sleep(POLL_SECONDS)
                for trial in self._runner.finished():
                    self._take(trial)
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    self._look()
        finally:
            self._view = None
            try:
                self._runner.stop()
            finally:
                self._save()

    def _results(self, begun: Sequence[Trial]) -> list[search.Result]:
        """Return the results of earlier points, for a search."""
        results: list[search.Result] = []
        if not self._plan.search:
            return results
        for members in sweep_result.by_point(begun):
            state = self._state(members)
            self._told |= {members[0].point} if state != 'begun' else set()
            scores = self._scores(members)
            results.append(
                search.Result(
                    members[0].settings,
                    self._score(members) if state == trials.FINISHED else None,
                    scores,
                    state,
                )
            )
        return results

    def _start(self) -> bool:
        """Start trials on free processes; returns whether there are more to start."""
        while not self._runner.is_full:
            waiting = [t for t in self.trials if t.state == trials.WAITING]
            if not waiting:
                if not self._add_point():
                    return False
                continue
            self._at_start[waiting[0].name] = self._share(waiting[0])
            self._runner.start(waiting[0])
            self._save()
        return True

    def _add_point(self) -> bool:
        """Make the trials of the next point; returns whether there is one."""
        values = self._points.next()
        if values is None:
            return False
        number = len(sweep_result.by_point(self.trials))
        for trial in trials.make_trials(number, values, self._plan):
            before = self._before.get((number, trial.seed))
            if before and before.settings != trials.simplify(values):
                raise errors.ConfigError(
                    f'{self._directory / trials.FILE} does not fit the plan '
                    f'of the sweep: {before.name} is none of it. Begin another '
                    'by another --name.'
                )
            if before and before.state in self._final():
                trial.state, trial.reason = before.state, before.reason
            self.trials.append(trial)
        return True

    def _final(self) -> set[str]:
        """Return the states of trials that are not started again."""
        final = {trials.FINISHED, trials.PRUNED}
        return final | {trials.FAILED} if self._plan.search else final

    def _take(self, trial: Trial) -> None:
        """Record and print the result of a trial."""
        label = errors.escape(trial.name)
        if trial.state == trials.FINISHED:
            curve = trials.read_curve(self._directory / trial.name)
            told = 'no episode of an evaluation has ended'
            if curve is not None:
                took = console.duration(curve.seconds[-1])
                told = f'score {console.score(curve.scores[-1])} after {took}'
            self._say.say('finished', f'{label}: {told}')
        elif trial.state == trials.FAILED:
            self._say.say('failed', f'{label}: {trial.reason}')
        else:
            self._say.say('given up', f'{label}: others are better')
        self._tell_point(trial.point)
        self._save()

    def _tell_point(self, point: int) -> None:
        """Report a point to the search, once all its trials have ended."""
        members = [each for each in self.trials if each.point == point]
        state = self._state(members)
        if state != 'begun' and point not in self._told:
            self._told.add(point)
            score = self._score(members) if state == trials.FINISHED else None
            self._points.tell(point, score, state)

    def _look(self) -> None:
        """Read the progress of trials, and stop those that a search prunes."""
        shares = {each.name: self._share(each) for each in self.trials}
        ended = sum(each.state not in (trials.WAITING, trials.RUNNING) for each in self.trials)
        running = ' '.join(f'{shares[each.name]:.0%}' for each in self._runner.running)
        facts = [f'running at {running}'] if running else []
        done = sum(shares.values()) / self._count
        taken = sum(shares[name] - at for name, at in self._at_start.items())
        if taken > ENOUGH:
            since = time.monotonic() - self._began
            left = since * (1 - done) * self._count / taken
            facts.append(f'{console.duration(left)} left')
        told = f'{ended} of {self._count} done'
        self._view = console.View('sweep', told, done, tuple(facts))
        for point in {each.point for each in self._runner.running}:
            if point not in self._given_up:
                self._give_up(point)

    @property
    def _count(self) -> int:
        """Return the number of trials of the whole sweep."""
        points = self._plan.points
        if isinstance(self._points, search.Grid):
            points = len(self._points)
        return points * len(self._plan.seeds)

    def _share(self, trial: Trial) -> float:
        steps = trial.settings.get('steps', self._config.steps)
        return trials.share_done(trial, self._directory, steps)

    def _give_up(self, point: int) -> None:
        """Stop the trials of a point that a search prunes."""
        members = [each for each in self.trials if each.point == point]
        scores = self._scores(members)
        first = self._reported.get(point, 0)
        for number in range(first, len(scores)):
            self._reported[point] = number + 1
            if self._points.report(point, number, scores[number]):
                self._given_up.add(point)
                for each in members:
                    if each.state == trials.WAITING:
                        each.state = trials.PRUNED
                    elif each.state == trials.RUNNING:
                        self._runner.give_up(each)
                break

    def _scores(self, members: Sequence[Trial]) -> list[float]:
        """Return the means over seeds of the evaluations that all of them have."""
        found = [trials.read_curve(self._directory / t.name) for t in members]
        lists: list[list[float]] = [[] if each is None else each.scores.tolist() for each in found]
        return [sum(some) / len(some) for some in zip(*lists, strict=False)]

    def _score(self, members: Sequence[Trial]) -> float | None:
        """Return the mean over seeds of the last scores, None if one is missing."""
        scores = [trials.final_score(each, self._directory) for each in members]
        mean = sum(scores) / len(scores)
        return mean if math.isfinite(mean) else None

    def _state(self, members: Sequence[Trial]) -> str:
        """Return the state of a point; `begun` if not all trials have ended."""
        states = {each.state for each in members}
        if states & {trials.WAITING, trials.RUNNING}:
            return 'begun'
        for state in (trials.PRUNED, trials.FAILED):
            if state in states:
                return state
        return trials.FINISHED

    def _tell_plan(self) -> None:
        plan, seeds = self._plan, len(self._plan.seeds)
        told = f'{self._count} trials'
        if self._count > seeds > 1:
            told += f', {self._count // seeds} settings × {seeds} seeds'
        told += f', {min(self._runner.jobs, self._count)} at once'
        self._say.say('plan', f'{plan.name}: {told}')
        state = 'resumed' if self._before else 'new'
        counts = [
            f'{number} {state}'
            for state in (trials.FINISHED, trials.PRUNED, trials.FAILED)
            if (number := self._count_before(state))
        ]
        kept = f': {", ".join(counts)}' if counts else ''
        self._say.say('sweep', f'{console.short(self._directory)} ({state}{kept})')

    def _count_before(self, state: str) -> int:
        return sum(each.state == state for each in self._before.values())

    def _save(self) -> None:
        known = {(each.point, each.seed) for each in self.trials}
        later = [each for key, each in self._before.items() if key not in known]
        trials.save([*self.trials, *later], self._directory)
