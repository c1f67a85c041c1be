"""Inspection of an environment by random actions.

report = inspection.inspect(lambda: gym.make('CartPole-v1'))
for breach in report.breaches:
    print(breach.text, breach.step)
"""

import contextlib
import copy
import re
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import choices, errors, spaces
from agents.tools.checking import comparison, contract, random_actions
from agents.tools.checking.contract import Complaint
from agents.tools.checking.inspection_report import Breaches, Report, Watch
from agents.tools.checking.ranges import Range
from agents.tools.nested import Nest

# After so many errors that an environment raised, it is not asked again.
MOST_ERRORS = 5

# Steps of which two environments with the same seed are compared.
COMPARED_STEPS = 300

# The share of the time in which steps are taken; the rest is for the others.
RUN_SHARE = 0.7

# What libraries say to those who write them.
FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


def inspect(
    make: Callable[[], gym.Env],
    steps: int = 2000,
    seed: int = 0,
    limit: int = 1000,
    watch: Watch | None = None,
) -> Report:
    """Step an environment with random actions and report its behaviour.

    Args:
        make: Function that makes an environment without a time limit from outside.
        steps: Number of steps.
        seed: Seed of the environment and the actions.
        limit: Length at which episodes are cut.
        watch: Receives the current call and the findings so far.
    """
    watch = watch or Watch()
    inspection = _Inspection(make, seed, limit, watch)
    with warnings.catch_warnings():
        warnings.simplefilter('default')
        for kind in FOR_DEVELOPERS:
            warnings.simplefilter('ignore', kind)
        warnings.showwarning = inspection.warn
        try:
            watch.start()
            if inspection.open():
                inspection.run(steps)
                inspection.close()
                if not inspection.failed:
                    inspection.repeat(min(steps, COMPARED_STEPS))
        except errors.EnvError:
            raise
        except BaseException as error:  # As strange as what is inspected.
            inspection.fail(error)
    return inspection.report


class _Failed(Exception):
    """The environment cannot be used any more."""


class _Inspection:
    """Stages of `inspect` for a Gymnasium environment."""

    def __init__(self, make: Callable[[], gym.Env], seed: int, limit: int, watch: Watch):
        self.report = Report()
        self.failed = False
        self._make = make
        self._seed = seed
        self._limit = limit
        self._watch = watch
        self._breaches = Breaches(self.report)
        self._arguments = ['seed', 'options']
        self._errors = 0
        # Whether an action was chosen without the mask that it should have.
        self._mask_broken = False
        self._score = 0.0
        self._last: tuple[Any, Any] | None = None
        self._first: Any = None
        # Whether the info of the first state had a mask of the actions.
        self._tells_mask: bool | None = None

    def warn(self, message: Any, *_: Any, **__: Any) -> None:
        """Record a warning."""
        text = re.sub(r'\x1b\[\d*m', '', f'{message}').removeprefix('WARN: ')
        if text not in self.report.warnings:
            self.report.warnings.append(text)

    def open(self) -> bool:
        """Make the environment; returns whether it can be stepped."""
        self._watch.begin('its constructor')
        try:
            self._env = self._make()
        except errors.EnvError:
            raise
        except BaseException as error:
            self._breaches.raised('making', 'it cannot be made', error)
            return False
        if not isinstance(self._env, gym.Env):
            kind = type(self._env)
            what = f'{kind.__module__}.{kind.__qualname__}'
            text = f'it should be a gymnasium.Env, not a {what}'
            self._breaches.note('making', text)
            return False
        if not self._has_spaces():
            return False
        self._require_render_modes()
        self._contract = contract.Contract(self._env)
        self._actions = random_actions.RandomActions(self._env, self._seed)
        self.report.observ = [
            Range(leaf.shape or ()) for leaf in spaces.leaves(self._env.observation_space)
        ]
        return True

    def run(self, steps: int) -> None:
        """Step it with random actions, for some episodes."""
        report, started = self.report, time.perf_counter()
        try:
            observ, info = self._reset(self._seed)
            for step in range(1, steps + 1):
                if self._watch.is_over(RUN_SHARE):
                    report.seconds = time.perf_counter() - started
                    break
                report.steps = step
                self._watch.tell(report)
                observ, info, over = self._step(observ, info)
                if over:
                    observ, info = self._reset(None)
        except _Failed:
            self.failed = True
        report.masked = self._actions.masked
        report.possible = self._actions.possible

    def close(self) -> None:
        self._watch.tell(self.report, now=True)
        self._watch.begin('close')
        try:
            self._env.close()
        except BaseException as error:
            self._breaches.leave_episode()
            self._breaches.raised('close', 'close raised', error)

    def fail(self, error: BaseException) -> None:
        """Record an error in results of the environment."""
        self.failed = True
        self._breaches.raised('inspection', 'looking at it raised', error)

    def repeat(self, steps: int) -> None:
        """Compare two environments with the same seed and actions."""
        self._breaches.leave_episode()
        self._watch.begin('a comparison of two of it')
        with contextlib.ExitStack() as stack:
            try:
                envs = [self._make_another(stack) for _ in range(2)]
                spaces.require_equal(enumerate(envs))
                compared = comparison.Comparison(envs, self._seed, self._limit)
                difference = compared.run(steps, self._watch.is_over)
                refused = None if difference else compared.refuses_sampled()
            except errors.EnvError as error:
                self._breaches.note('second', f'{error}')
                return
            except BaseException as error:
                doing = 'another one, made while there is one, raised'
                self._breaches.raised('second', doing, error)
                return
        if refused is not None:
            self._breaches.note('action', refused, ends=False)
        if difference is None:
            self.report.repeated = compared.steps
            return
        self._breaches.episode = compared.episode
        self._breaches.step = compared.step
        self._breaches.note('seed', difference, ends=False)

    def _make_another(self, stack: contextlib.ExitStack) -> gym.Env:
        """Make an environment that is closed with the stack."""
        env = self._make()
        stack.callback(_close, env)
        return env

    def _has_spaces(self) -> bool:
        """Return whether there are supported spaces."""
        report, env = self.report, self._env
        try:
            report.observation_space = env.observation_space
            report.action_space = env.action_space
            spaces.require_supported(env.observation_space, env.action_space)
        except errors.EnvError as error:
            self._breaches.note('spaces', f'{error}')
            return False
        except BaseException as error:
            self._breaches.raised('spaces', 'it has no spaces', error)
            return False
        return True

    def _reset(self, seed: int | None) -> tuple[Any, Any]:
        self._breaches.episode += 1
        self._breaches.step, self._score = 0, 0.0
        result = self._ask_to_reset(seed)
        if self._judge(self._contract.after_reset(result)):
            raise _Failed
        observ, info = result
        self._keep(observ)
        if self._first is None:
            self._first = copy.deepcopy(observ) if self._sound else None
        elif self._sound and comparison.first_difference(self._first, observ) is not None:
            self.report.starts_differ = True
        return observ, info

    def _ask_to_reset(self, seed: int | None) -> Any:
        """Call `reset`, without arguments that it does not take."""
        while True:
            values: dict[str, Any] = {'seed': seed, 'options': None}
            arguments = {name: values[name] for name in self._arguments}
            self._watch.begin('reset', self._breaches.episode)
            try:
                started = time.perf_counter()
                result = self._env.reset(**arguments)
                self.report.reset_seconds.append(time.perf_counter() - started)
                return result
            except BaseException as error:
                unknown = contract.unexpected_argument(error, self._arguments)
                if unknown is None:
                    doing = f'reset raised, given the seed {seed}'
                    self._breaches.raised('reset', doing, error)
                    raise _Failed from None
            self._arguments.remove(unknown)
            self._breaches.note(
                f'argument {unknown}',
                f'reset takes no argument {unknown!r}; it should be '
                'reset(self, *, seed=None, options=None)',
                ends=unknown == 'seed',
            )

    def _step(self, observ: Nest, info: Any) -> tuple[Any, Any, bool]:
        report = self.report
        action = self._sample(observ, info)
        self._breaches.step += 1
        place = self._breaches.episode, self._breaches.step
        self._watch.begin('step', *place)
        started = time.perf_counter()
        try:
            result = self._env.step(action)
        except BaseException as error:
            if self._mask_broken:  # It may have been an impossible action.
                raise _Failed from None
            doing = f'step raised, given the action {action}'
            self._breaches.raised('error', doing, error)
            self._errors += 1
            if self._errors == MOST_ERRORS:
                raise _Failed from None
            return *self._reset(None), False
        report.step_seconds.append(time.perf_counter() - started)
        if self._judge(self._contract.after_step(result)):
            raise _Failed
        observ, reward, terminated, truncated, info = result
        self._keep(observ)
        with np.errstate(all='ignore'):
            value = _number_or_nan(reward)
            report.reward.add(value)
        self._score += value
        return observ, info, self._end(terminated, truncated)

    def _end(self, terminated: Any, truncated: Any) -> bool:
        """Count the episode if it is over; returns whether it is."""
        report = self.report
        terminated, truncated = np.any(terminated), np.any(truncated)
        cut = self._breaches.step >= self._limit
        if not (terminated or truncated or cut):
            return False
        report.scores.append(self._score)
        report.lengths.append(self._breaches.step)
        if terminated:
            report.terminated += 1
        elif truncated:
            report.truncated += 1
        else:
            report.cut += 1
        return True

    def _sample(self, observ: Nest, info: Any) -> Nest:
        space = self._env.action_space
        if self._actions.are_masked_by_info:
            self._require_mask_always(info)
        try:
            action = self._actions.sample(observ, info)
        except errors.EnvError as error:
            self._breaches.note('mask', f'{error}')
            self._mask_broken = True
            action = self._actions.sample_any()
        return random_actions.as_given(space, action)

    def _require_mask_always(self, info: Any) -> None:
        """Record an action mask that is missing in some states."""
        tells = isinstance(info, dict) and choices.KEY in info
        method = 'step' if self._breaches.step else 'reset'
        if self._tells_mask is None:
            self._tells_mask = tells
        elif tells and not self._tells_mask:
            self._breaches.note('mask', choices.describe_late(method))
        elif self._tells_mask and not tells:
            source = f'info[{choices.KEY!r}]'
            text = choices.describe_missing(source, method)
            self._breaches.note('mask', text)

    def _judge(self, complaints: Iterable[Complaint]) -> bool:
        """Record violations; returns whether the result cannot be used."""
        useless = False
        self._sound = True
        for complaint in complaints:
            self._breaches.note(complaint.kind, complaint.text, complaint.ends)
            useless |= complaint.useless
            self._sound &= complaint.kind != 'observation'
        return useless

    def _keep(self, observ: Nest) -> None:
        """Measure an observation, and check whether the previous one was changed."""
        if self._last is not None:
            before, then = self._last
            changed = comparison.first_difference(then, before)
            if changed is not None:
                self._breaches.note(
                    'changed',
                    'an observation changes after it was returned: '
                    f'observation{changed} later. Return a copy of the array',
                    ends=False,
                )
        self._last = None
        if not self._sound:
            return
        self._last = observ, copy.deepcopy(observ)
        space = self._env.observation_space
        for leaf, seen in zip(_flatten(space, observ), self.report.observ, strict=True):
            seen.add(leaf)

    def _require_render_modes(self) -> None:
        metadata = getattr(self._env, 'metadata', None)
        metadata = metadata if isinstance(metadata, dict) else {}
        modes = metadata.get('render_modes')
        if not isinstance(modes, (list, tuple)):
            old = 'render.modes' in metadata
            what = "'render.modes', as before Gymnasium 0.26" if old else 'none'
            self._breaches.note(
                'render',
                "metadata should have a list 'render_modes', but has "
                f'{what if modes is None else repr(modes)}',
                ends=False,
            )
            return
        self.report.render_modes = [f'{mode}' for mode in modes]


def _close(env: gym.Env) -> None:
    """Close an environment and ignore its errors."""
    with contextlib.suppress(BaseException):
        env.close()


def _flatten(space: gym.Space, observ: Nest) -> list[Any]:
    """Return the leaves of an observation that fits its space."""
    match space:
        case gym.spaces.Dict():
            return [
                leaf for key, part in spaces.items(space) for leaf in _flatten(part, observ[key])
            ]
        case gym.spaces.Tuple():
            return [
                leaf
                for part, value in zip(space, observ, strict=True)
                for leaf in _flatten(part, value)
            ]
    return [observ]


def _number_or_nan(reward: Any) -> float:
    try:
        return float(reward)
    except BaseException:
        return float('nan')
