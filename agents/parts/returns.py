"""Returns and advantages.

All tensors are `[time, agent]`. An episode ends where `done` is true. There is no further reward
where it is also `terminated`; where it is truncated, and at the end of the rollout, the return
bootstraps from the value of the true successor, `next_value`.
"""

from agents.parts import moments
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator


def lambda_advantage(
    reward: tf.Tensor,
    value: tf.Tensor,
    next_value: tf.Tensor,
    terminated: tf.Tensor,
    done: tf.Tensor,
    discount: float,
    lambda_: float,
) -> tf.Tensor:
    """Generalized advantage estimation: exponentially weighted mean of n-step advantages.

        δₜ = rₜ + γ (1 − terminatedₜ) V(s′ₜ) − V(sₜ)
        Aₜ = δₜ + γ λ (1 − doneₜ) Aₜ₊₁

    λ = 0 gives the one-step advantage, λ = 1 that of the whole return.

    Schulman et al. 2016, High-dimensional continuous control using generalized advantage
    estimation.
    """
    _require_alike(reward, value, next_value, terminated, done)
    going_on = tf.where(terminated, 0.0, next_value)
    delta = reward + discount * going_on - value
    return _backward(delta, tf.where(done, 0.0, discount * lambda_))


def successor_value(value: tf.Tensor, cut_value: tf.Tensor, done: tf.Tensor) -> tf.Tensor:
    """Return the values of the successors: of the next step, or `cut_value` where there is none.

    Args:
        value: Values of the observations.
        cut_value: Values of the true successors where episodes end and at the last step.
        done: Mask of the last steps of episodes.
    """
    later = tf.concat([value[1:], cut_value[-1:]], 0)
    return tf.where(done, cut_value, later)


def lambda_return(
    reward: tf.Tensor,
    value: tf.Tensor,
    next_value: tf.Tensor,
    terminated: tf.Tensor,
    done: tf.Tensor,
    discount: float,
    lambda_: float,
) -> tf.Tensor:
    """λ-return: exponentially weighted mean of n-step returns, Aₜ + V(sₜ)."""
    return value + lambda_advantage(reward, value, next_value, terminated, done, discount, lambda_)


def discounted_return(
    reward: tf.Tensor,
    next_value: tf.Tensor,
    terminated: tf.Tensor,
    done: tf.Tensor,
    discount: float,
) -> tf.Tensor:
    """Sum of discounted rewards until the end of the episode or the rollout.

    Rₜ = rₜ + γ Rₜ₊₁          within an episode,
    Rₜ = rₜ                   where it is terminated,
    Rₜ = rₜ + γ V(s′ₜ)        where it is truncated or the rollout ends.
    """
    _require_alike(reward, next_value, terminated, done)
    last = tf.range(reward.shape[0])[:, None] == reward.shape[0] - 1
    cut = (done | last) & ~terminated
    reward = reward + tf.where(cut, discount * next_value, 0.0)
    return _backward(reward, tf.where(done | last, 0.0, discount))


def fixed_step_return(
    reward: tf.Tensor,
    next_value: tf.Tensor,
    terminated: tf.Tensor,
    done: tf.Tensor,
    discount: float,
    window: int,
) -> tf.Tensor:
    """n-step return: `window` rewards, then the value of the successor.

    Rₜ⁽¹⁾ = rₜ + γ (1 − terminatedₜ) V(s′ₜ)
    Rₜ⁽ⁿ⁾ = rₜ + γ Rₜ₊₁⁽ⁿ⁻¹⁾   unless the episode or the rollout ends at t
    """
    _require_alike(reward, next_value, terminated, done)
    last = tf.range(reward.shape[0])[:, None] == reward.shape[0] - 1
    one_step = reward + discount * tf.where(terminated, 0.0, next_value)
    result, zeros = one_step, tf.zeros_like(reward[:1])
    for _ in range(window - 1):
        following = reward + discount * tf.concat([result[1:], zeros], 0)
        result = tf.where(done | last, one_step, following)
    return result


def discounted_past(
    reward: tf.Tensor, begins: tf.Tensor, discount: float, before: tf.Tensor
) -> tf.Tensor:
    """Discounted sum of the rewards of an episode so far, the oldest discounted most.

        Gₜ = rₜ + γ (1 − beginsₜ) Gₜ₋₁

    Args:
        reward: Rewards `[time, agent]`.
        begins: Mask of the first steps of episodes, `[time, agent]`.
        discount: Discount factor γ.
        before: Sum before the first step, `[agent]`.
    """
    _require_alike(reward, begins)
    factor = tf.where(begins, 0.0, discount)
    first = (reward[0] + factor[0] * before)[None]
    summand = tf.concat([first, reward[1:]], 0)
    backward = _backward(tf.reverse(summand, [0]), tf.reverse(factor, [0]))
    return tf.reverse(backward, [0])


def normalized(advantage: tf.Tensor, ranks: Communicator = ALONE) -> tf.Tensor:
    """Advantages with mean 0 and standard deviation 1, over all ranks."""
    mean, variance = moments.mean_and_variance(advantage, ranks=ranks)
    distance = tf.cast(advantage, tf.float64) - mean
    return tf.cast(distance / (tf.sqrt(variance) + 1e-8), tf.float32)


def _backward(summand: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Solve xₜ = summandₜ + factorₜ xₜ₊₁ along time, with x = 0 at the end.

    Each pass doubles the number of steps that an element accounts for: log₂ passes instead of one
    per time step.
    """
    time, agents = summand.shape
    factor = tf.broadcast_to(factor, summand.shape)

    def later(x: tf.Tensor, span: tf.Tensor) -> tf.Tensor:
        padded = tf.concat([x, tf.zeros_like(x)], 0)
        return tf.slice(padded, [span, 0], [time, agents])

    def double(span: tf.Tensor, summand: tf.Tensor, factor: tf.Tensor) -> tuple:
        summand += factor * later(summand, span)
        return span * 2, summand, factor * later(factor, span)

    _, summand, _ = tf.while_loop(
        lambda span, *_: span < time,
        double,
        [tf.constant(1), summand, factor],
        parallel_iterations=1,
    )
    return summand


def _require_alike(*tensors: tf.Tensor) -> None:
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1 or len(*shapes) != 2:
        raise ValueError(f'Expected shapes [time, agent] all alike, not {shapes}.')
