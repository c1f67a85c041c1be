"""Inspection of a native environment by random actions.

Steps a batch in the graph, as a training would, and validates the results against
`agents.environments.native_env.NativeEnv`.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.environments.as_gym_env import AsGymEnv
from agents.environments.native_batch_env import NativeBatchEnv
from agents.environments.native_env import NativeEnv
from agents.tools import errors, nested, spaces
from agents.tools.checking import comparison
from agents.tools.checking.contract import Contract
from agents.tools.checking.inspection import COMPARED_STEPS, RUN_SHARE
from agents.tools.checking.inspection_report import Breaches, Report, Watch
from agents.tools.checking.ranges import Range
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf
from agents.tools.nested import Nest

# Agents of the batch that is stepped.
AGENTS = 16


def inspect(
    make: Callable[[], NativeEnv],
    steps: int = 2000,
    seed: int = 0,
    limit: int = 1000,
    watch: Watch | None = None,
) -> Report:
    """Step a batch of an environment with random actions and report its behaviour.

    Args:
        make: Function that makes the environment.
        steps: Number of steps of all agents together.
        seed: Seed of the environment and the actions.
        limit: Length at which episodes are cut.
        watch: Receives the current call and the findings so far.
    """
    inspection = _Inspection(seed, limit, watch or Watch())
    try:
        inspection.run(make, -(-steps // AGENTS))
    except errors.EnvError:
        raise
    except BaseException as error:
        inspection.fail(error)
    return inspection.report


class _Inspection:
    """Stages of `inspect` for a native environment."""

    def __init__(self, seed: int, limit: int, watch: Watch):
        self.report = Report()
        self._breaches = Breaches(self.report)
        self._seed, self._limit, self._watch = seed, limit, watch
        self._call = 'its constructor'

    def run(self, make: Callable[[], NativeEnv], count: int) -> None:
        """Step a batch `count` times, and a second one to compare."""
        self._watch.start()
        self._begin('its constructor')
        env, report = make(), self.report
        report.observation_space = env.observation_space
        report.action_space = env.action_space
        try:
            spaces.require_supported(env.observation_space, env.action_space)
        except errors.EnvError as error:
            self._breaches.note('spaces', f'{error}')
            return
        if env.can_render:
            report.render_modes = ['rgb_array']
        if env.max_length is not None:
            self._limit = report.limit = min(self._limit, env.max_length)
        report.observ = [Range(leaf.shape or ()) for leaf in spaces.leaves(env.observation_space)]
        if not self._keeps_types(env):
            return
        self._compare(env, self._play(env, count))

    def fail(self, error: BaseException) -> None:
        """Record an exception of the environment."""
        if isinstance(error, tf.errors.OpError):
            text = f'{self._call} failed: {error.message.splitlines()[0]}'
            self._breaches.note('error', text)
            return
        self._breaches.raised('error', f'{self._call} raised', error)

    def _begin(self, call: str, step: int = 0) -> None:
        self._call = call
        self._watch.begin(call, min(step, 1), step)

    def _keeps_types(self, env: NativeEnv) -> bool:
        """Return whether tensors have the expected shapes and types."""
        self._begin('reset')
        state = env.reset(self._key('reset'), AGENTS)
        self._require_same(
            'the observations of observe',
            env.observe(state),
            nested.map(
                lambda spec: tf.TensorSpec((AGENTS, *spec.shape), spec.dtype),
                spaces.specs(env.observation_space),
            ),
        )
        self._begin('step')
        result = env.step(state, self._sample(env), self._key('step'))
        if not isinstance(result, tuple) or len(result) != 3:
            self._breaches.note(
                'step',
                'step should return 3 values (state, reward, terminated), not '
                f'{len(result) if isinstance(result, tuple) else 1}',
            )
            return False
        after, reward, terminated = result
        self._require_same('the state of step', after, state)
        for name, value, kind in (
            ('the rewards of step', reward, 'float32'),
            ('terminated of step', terminated, 'bool'),
        ):
            self._require_same(name, value, tf.TensorSpec((AGENTS,), kind))
        return not self.report.breaches

    def _require_same(self, what: str, value: Any, expected: Any) -> None:
        """Record a nest with other keys, shapes or types than expected."""
        try:
            tf.nest.assert_same_structure(value, expected)
            pairs = zip(
                nested.names(expected), nested.flatten(value), nested.flatten(expected), strict=True
            )
            wrong = [
                f'{what}{name and " "}{name} should be {_type(spec)}, not {_type(leaf)}'
                for name, leaf, spec in pairs
                if _type(leaf) != _type(spec)
            ]
        except (TypeError, ValueError):
            wrong = [f'{what} should be {_nest(expected)}, not {_nest(value)}']
        for text in wrong:
            self._breaches.note(what, text)

    def _play(self, env: NativeEnv, count: int) -> list[tuple]:
        """Step a batch; returns the first outcomes."""
        report, started = self.report, time.perf_counter()
        complaints = Contract(AsGymEnv(env))
        batch, step = self._make_batch(env)
        scores, lengths = np.zeros(AGENTS), np.zeros(AGENTS, int)
        firsts = _rows(batch.observ)
        report.starts_differ = any(
            comparison.first_difference(firsts[0], row) is not None for row in firsts[1:]
        )
        space = self._space(env)
        outcomes: list[tuple] = []
        for number in range(1, count + 1):
            if self._watch.is_over(RUN_SHARE):
                report.seconds = time.perf_counter() - started
                return outcomes
            actions = self._sample(env, space)
            self._begin('step', number)
            began = time.perf_counter()
            step(actions)
            if number > 1:  # The first compiles it.
                passed = (time.perf_counter() - began) / AGENTS
                report.step_seconds.extend([passed] * AGENTS)
            report.steps += AGENTS
            self._breaches.episode, self._breaches.step = 1, number
            reward, terminated, truncated, observ = _outcome(batch)
            outcomes.append((reward, terminated, truncated, observ))
            lengths += 1
            for agent, row in enumerate(_rows(observ)):
                ended = bool(terminated[agent]), bool(truncated[agent])
                value = float(reward[agent])
                for complaint in complaints.after_step((row, value, *ended, {})):
                    # Of its own kind, as settings that help others are not
                    # for native environments.
                    kind = f'native {complaint.kind}'
                    self._breaches.note(kind, complaint.text, complaint.ends)
                report.reward.add(value)
                scores[agent] += value
                for leaf, seen in zip(nested.flatten(row), report.observ, strict=True):
                    seen.add(leaf)
                if any(ended):
                    report.terminated += ended[0]
                    report.cut += not ended[0]
                    report.scores.append(float(scores[agent]))
                    report.lengths.append(int(lengths[agent]))
                    scores[agent] = lengths[agent] = 0
            self._watch.tell(report)
        return outcomes[:COMPARED_STEPS]

    def _compare(self, env: NativeEnv, outcomes: list[tuple]) -> None:
        """Compare a second batch with the same seed and actions."""
        self._breaches.leave_episode()
        self._watch.tell(self.report, now=True)
        self._begin('a comparison of two of it')
        batch, step = self._make_batch(env)
        space = self._space(env)
        for number, expected in enumerate(outcomes):
            if self._watch.is_over():
                break
            step(self._sample(env, space))
            names = 'reward', 'terminated', 'truncated', 'observation'
            pairs = zip(names, expected, _outcome(batch), strict=True)
            for name, one, other in pairs:
                found = comparison.first_difference(one, other)
                if found is not None:
                    self._breaches.episode = 1
                    self._breaches.step = number + 1
                    self._breaches.note(
                        'seed',
                        'the same seed and actions do not repeat: '
                        f'{name}{found}. All that is random should be drawn by '
                        'agents.tools.graph.random from the key',
                        ends=False,
                    )
                    return
            self.report.repeated = (number + 1) * AGENTS

    def _make_batch(self, env: NativeEnv) -> tuple[NativeBatchEnv, Any]:
        batch = NativeBatchEnv(env, AGENTS, self._limit, self._seed)
        return batch, compiled(batch.step)

    def _space(self, env: NativeEnv) -> gym.Space:
        """Return the space of actions, seeded to sample the same order again."""
        space = spaces.decode(spaces.encode(env.action_space))
        space.seed(self._seed)
        return space

    def _sample(self, env: NativeEnv, space: gym.Space | None = None) -> Any:
        """Sample actions in the form of native environments."""
        space = space or self._space(env)
        actions = np.array([space.sample() for _ in range(AGENTS)])
        actions = actions - spaces.start(space)
        return tf.constant(actions, spaces.specs(space).dtype)

    def _key(self, draw: str) -> tf.Tensor:
        return random.key(self._seed, draw, 0)


def _outcome(batch: NativeBatchEnv) -> tuple:
    """Return rewards, flags and observations of the last step as arrays."""
    reward, terminated, truncated, observ, _ = batch.transition
    nest = reward, terminated, truncated, observ
    return nested.map(np.asarray, nest)


def _rows(observ: Nest) -> list[Any]:
    """Return the observations of each agent."""
    arrays = nested.map(np.asarray, observ)
    return [nested.map(lambda leaf, agent=agent: leaf[agent], arrays) for agent in range(AGENTS)]


def _type(value: Any) -> str:
    kind = getattr(value.dtype, 'name', value.dtype)
    return f'{kind} {list(value.shape)}'


def _nest(nest: Nest) -> str:
    return f'{tf.nest.map_structure(lambda leaf: _leaf(leaf), nest)}'


def _leaf(value: Any) -> str:
    return _type(value) if hasattr(value, 'dtype') else type(value).__name__
