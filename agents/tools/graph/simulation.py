"""Fusion of a batch of environments with an algorithm in one graph."""

import functools
import time
from collections.abc import Callable
from typing import Any

from agents.tools.graph.backend import compile_part, tf
from agents.tools.graph.episode_scores import EpisodeScores
from agents.tools.graph.graph_env import GraphEnv
from agents.tools.nested import Nest


def simulate(batch_env: GraphEnv, algo: Any, scores: EpisodeScores) -> tf.Tensor:
    """Step all environments of a batch once.

    The order of calls is:

        begin_episode   the algorithm resets its state where an episode begins
        perform         it chooses actions for the observations
        (environments)  they step; those whose episode ends are reset
        experience      the algorithm receives the outcome
        end_episode     it receives the mask of agents whose episode ended

    The algorithm does not learn here, but in `training`.

    Args:
        batch_env: Environments.
        algo: Algorithm, see `agents.algorithms.algorithm`.
        scores: Sums rewards and counts steps.

    Returns:
        Mask of the agents whose episode ended.
    """
    whole = not algo.convolutional
    act = compile_part(functools.partial(_act, batch_env, algo), whole)
    record = compile_part(functools.partial(_record, batch_env, algo, scores), whole)
    observ, action, prepared = act()
    batch_env.step(prepared)
    return record(observ, action)


def rollout(batch_env: GraphEnv, algo: Any, scores: EpisodeScores, steps: int) -> tf.Tensor:
    """Simulate `steps` steps, in the graph."""
    (done,) = _repeat(
        lambda done: (simulate(batch_env, algo, scores),), steps, (tf.zeros(len(batch_env), bool),)
    )
    return done


def training(
    batch_env: GraphEnv, algo: Any, scores: EpisodeScores, steps: int, one_program: bool = False
) -> Callable[..., dict]:
    """Make the operation that simulates rollouts and learns from them.

    With native environments, all of it can be one program. Otherwise, which is necessary for
    external environments and faster for large rollouts, there is a program for the rollout, or a
    graph that waits for the environments, and programs for the update, of which two run at the same
    time.

    Args:
        batch_env: Environments.
        algo: Algorithm, see `agents.algorithms.algorithm`.
        scores: Sums rewards and counts steps.
        steps: Steps of a rollout.
        one_program: Compile rollouts and updates as one program.

    Returns:
        Function of the number of rollouts, by default one, each followed by an update. Returns the
        mean metrics of the updates by name.
    """
    if one_program:
        return _one_program(batch_env, algo, scores, steps)

    @tf.function(autograph=False, jit_compile=can_compile(batch_env, algo))
    def simulate_rollout() -> dict:
        rollout(batch_env, algo, scores, steps)
        return scores.clear()

    def learn() -> dict:
        started = time.perf_counter()
        results = algo.update()
        return {**results, 'update_seconds': time.perf_counter() - started}

    def operation(count: int = 1) -> dict:
        if count != 1:
            raise ValueError('Several rollouts need one_program.')
        episodes = simulate_rollout()
        failure = batch_env.failure()
        if failure is not None:
            raise failure
        return {**learn(), **episodes}

    return operation


def can_compile(batch_env: GraphEnv, algo: Any) -> bool:
    """Return whether a function that simulates steps can be compiled as a whole."""
    return batch_env.compiled and not algo.convolutional


def _one_program(
    batch_env: GraphEnv, algo: Any, scores: EpisodeScores, steps: int
) -> Callable[..., dict]:
    # Traced ahead, to know the names of the numbers that a loop adds up.
    update = tf.function(algo.update, autograph=False)
    names = sorted(update.get_concrete_function().structured_outputs)

    def rollout_and_update(sums: tf.Tensor) -> tuple[tf.Tensor]:
        rollout(batch_env, algo, scores, steps)
        metrics = update()
        return (sums + tf.stack([metrics[name] for name in names]),)

    @tf.function(jit_compile=can_compile(batch_env, algo), autograph=False)
    def several(count: tf.Tensor) -> tuple[tf.Tensor, dict]:
        sums = tf.zeros(len(names))
        # Stops at a rollout that cannot be learnt from, to be reported.
        (sums,) = _repeat(rollout_and_update, count, (sums,), lambda *_: algo.is_finite())
        return sums / tf.cast(count, tf.float32), scores.clear()

    def operation(count: int = 1) -> dict:
        # A tensor, so that any number of rollouts is the same program.
        means, episodes = several(tf.constant(count))
        metrics = dict(zip(names, means.numpy().tolist(), strict=True))
        return {**metrics, **episodes}

    return operation


def evaluation(batch_env: GraphEnv, algo: Any, scores: EpisodeScores, max_steps: int) -> None:
    """Simulate one episode of every agent from its start, in the graph.

    Agents that are done wait for the others, so that short episodes do not count more often than
    long ones. An agent whose episode was lost plays another.

    Args:
        batch_env: Environments.
        algo: Algorithm, see `agents.algorithms.algorithm`.
        scores: Sums rewards and counts steps.
        max_steps: Steps after which an episode is ended and counted as it is.
    """
    batch_env.reset()
    scores.restart(episodes=1)

    tf.while_loop(
        lambda done: tf.reduce_any(scores.counting & (scores.length < max_steps)),
        lambda done: (simulate(batch_env, algo, scores),),
        [tf.zeros(len(batch_env), bool)],
        parallel_iterations=1,
    )
    scores.end_all()


def _act(batch_env: GraphEnv, algo: Any) -> tuple[Any, tf.Tensor, tf.Tensor]:
    observ = batch_env.observ
    algo.begin_episode(batch_env.begins)
    action = algo.perform(observ)
    return observ, action, batch_env.prepare(action)


def _record(
    batch_env: GraphEnv, algo: Any, scores: EpisodeScores, observ: Nest, action: tf.Tensor
) -> tf.Tensor:
    transition = batch_env.transition
    algo.experience(observ, action, transition)
    algo.end_episode(transition.done)
    scores.submit(transition.reward, transition.done, transition.lost)
    return transition.done


def _repeat(
    body: Callable[..., tuple],
    times: int | tf.Tensor,
    state: tuple,
    condition: Callable[..., tf.Tensor] = lambda *_: tf.constant(True),
) -> tuple:
    """Apply a body to its own results several times, in the graph."""

    def step(index: tf.Tensor, *state: Nest) -> tuple:
        return index + 1, *body(*state)

    loop = tf.while_loop(
        lambda index, *state: (index < times) & condition(*state),
        step,
        [tf.constant(0), *state],
        parallel_iterations=1,
    )
    return tuple(loop[1:])
