"""Defects in the engine, and whether the default tests notice them.

    python -m benchmarks.defects
    python -m benchmarks.defects gae kl --keep-going

Each defect changes one place of a copy of the repository: a sign, an index, a
factor, a missing check. The tests of the default tier that belong to the place
run on the copy, until one fails. A defect that no test notices is printed as
MISSED.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parent.parent
COPIED = 'agents', 'tests', 'benchmarks', 'examples', 'pyproject.toml'
SECONDS = 600


class Defect(NamedTuple):
    """A change of a file, and the tests to notice it.

    Attributes:
        name: Words that say what is wrong.
        path: The file, below `agents`.
        old: Text that occurs once in the file.
        new: Text that takes its place.
        tests: Files of tests, below `tests`, in the order of running.
    """

    name: str
    path: str
    old: str
    new: str
    tests: str


RETURNS = 'parts/test_returns.py'
LOSSES = 'algorithms/test_losses.py algorithms/test_ppo.py'
DISTRIBUTIONS = 'parts/test_distributions.py'
NORMALIZE = 'parts/test_normalize.py'
CHECKPOINTS = 'tools/runs/test_saver.py'
WORKERS = 'tools/workers'
BATCH = 'tools/batch'

DEFECTS = (
    Defect(
        'gae: bootstraps from terminal states',
        'parts/returns.py',
        'going_on = tf.where(terminated, 0.0, next_value)',
        'going_on = next_value',
        RETURNS,
    ),
    Defect(
        'gae: advantages flow across episodes',
        'parts/returns.py',
        'return _backward(delta, tf.where(done, 0.0, discount * lambda_))',
        'return _backward(delta, tf.where(terminated, 0.0, discount * lambda_))',
        RETURNS,
    ),
    Defect(
        'gae: adds the value instead of subtracting it',
        'parts/returns.py',
        'delta = reward + discount * going_on - value',
        'delta = reward + discount * going_on + value',
        RETURNS,
    ),
    Defect(
        'returns: lambda return without the value',
        'parts/returns.py',
        'return value + lambda_advantage(',
        'return lambda_advantage(',
        RETURNS,
    ),
    Defect(
        'returns: recursion is off by one step',
        'parts/returns.py',
        'padded = tf.concat([x, tf.zeros_like(x)], 0)',
        'padded = tf.concat([x[1:], tf.zeros_like(x), x[:1]], 0)',
        RETURNS,
    ),
    Defect(
        'returns: n-step window is one too long',
        'parts/returns.py',
        'for _ in range(window - 1):',
        'for _ in range(window):',
        RETURNS,
    ),
    Defect(
        'advantages: not centred',
        'parts/returns.py',
        'distance = tf.cast(advantage, tf.float64) - mean',
        'distance = tf.cast(advantage, tf.float64)',
        RETURNS,
    ),
    Defect(
        'ppo: maximum instead of minimum in the clipped loss',
        'algorithms/ppo/losses.py',
        '-tf.reduce_mean(tf.minimum(ratio * advantage, clipped',
        '-tf.reduce_mean(tf.maximum(ratio * advantage, clipped',
        LOSSES,
    ),
    Defect(
        'ppo: inverted ratio',
        'algorithms/ppo/ppo.py',
        "log_ratio = new.log_prob(steps['action']) - steps['old_log_prob']",
        "log_ratio = steps['old_log_prob'] - new.log_prob(steps['action'])",
        LOSSES,
    ),
    Defect(
        'ppo: entropy bonus with the wrong sign',
        'algorithms/ppo/ppo.py',
        'loss -= config.entropy_bonus * entropy',
        'loss += config.entropy_bonus * entropy',
        LOSSES,
    ),
    Defect(
        'ppo: KL estimate with the wrong sign',
        'algorithms/ppo/losses.py',
        'tf.math.expm1(log_ratio) - log_ratio',
        'tf.math.expm1(log_ratio) + log_ratio',
        LOSSES,
    ),
    Defect(
        'ppo: penalty falls where the policy moves too far',
        'algorithms/ppo/losses.py',
        'penalty = tf.where(kl > 1.3 * target, penalty * 1.5, penalty)',
        'penalty = tf.where(kl > 1.3 * target, penalty / 1.5, penalty)',
        LOSSES,
    ),
    Defect(
        'ppo: epochs end early at the wrong side of kl_stop',
        'algorithms/ppo/ppo.py',
        "return means['kl'] > (config.kl_stop or float('inf'))",
        "return means['kl'] < (config.kl_stop or float('inf'))",
        LOSSES,
    ),
    Defect(
        'ppo: the joint loss ignores value_weight',
        'algorithms/ppo/ppo.py',
        "loss = means['policy_loss'] + config.value_weight * error",
        "loss = means['policy_loss'] + error",
        'algorithms/test_joint_learner.py',
    ),
    Defect(
        'value: the smaller of two clipped errors',
        'parts/losses.py',
        'error = tf.maximum(error, (target - old_value - change) ** 2)',
        'error = tf.minimum(error, (target - old_value - change) ** 2)',
        'parts/test_losses.py',
    ),
    Defect(
        'value: no factor of one half',
        'parts/losses.py',
        'return 0.5 * tf.reduce_mean(error)',
        'return tf.reduce_mean(error)',
        'parts/test_losses.py',
    ),
    Defect(
        'minibatches: the last one is never used',
        'parts/minibatches.py',
        'begin = number * batch_size',
        'begin = tf.maximum(number - 1, 0) * batch_size',
        'parts/test_minibatches.py',
    ),
    Defect(
        'minibatches: every epoch has the same order',
        'parts/minibatches.py',
        'key + tf.stack([0, number]), count * batch_size',
        'key + tf.stack([0, 0 * number]), count * batch_size',
        'parts/test_minibatches.py',
    ),
    Defect(
        'adam: second moment without its bias correction',
        'parts/optimizer.py',
        'rate *= tf.sqrt(1 - beta_2**step)',
        'rate *= 1.0',
        'parts/test_adam.py',
    ),
    Defect(
        'adam: clips gradients to the inverse norm',
        'parts/optimizer.py',
        'tf.minimum(1.0, self._max_norm / (norm + 1e-8))',
        'tf.maximum(1.0, self._max_norm / (norm + 1e-8))',
        'parts/test_adam.py',
    ),
    Defect(
        'adam: applies gradients that are not finite',
        'parts/optimizer.py',
        'self._weights.subtract(tf.where(is_finite, change, 0.0))',
        'self._weights.subtract(change)',
        'parts/test_adam.py',
    ),
    Defect(
        'gaussian: log-probability without the deviation',
        'parts/distributions.py',
        'each = -0.5 * (distance**2 + math.log(2 * math.pi)) - self.log_std',
        'each = -0.5 * (distance**2 + math.log(2 * math.pi))',
        DISTRIBUTIONS,
    ),
    Defect(
        'gaussian: KL divergence the other way round',
        'parts/distributions.py',
        'log_ratio = other.log_std - self.log_std',
        'log_ratio = self.log_std - other.log_std',
        DISTRIBUTIONS,
    ),
    Defect(
        'categorical: masked actions count in the entropy',
        'parts/distributions.py',
        'return prob * tf.where(prob > 0, value, 0.0)',
        'return prob * value',
        DISTRIBUTIONS,
    ),
    Defect(
        'masks: forbidden and allowed actions are exchanged',
        'parts/masks.py',
        'return without_mask(observ), observ[KEY] != 0',
        'return without_mask(observ), observ[KEY] == 0',
        'parts/test_masks.py training/test_action_masks.py',
    ),
    Defect(
        'normalizer: forgets the distance between means',
        'parts/normalize.py',
        '(self._squares, (variance + between) * new),',
        '(self._squares, variance * new),',
        NORMALIZE,
    ),
    Defect(
        'normalizer: weighs new values by the old count',
        'parts/normalize.py',
        '(self._mean, delta * new / total),',
        '(self._mean, delta * self._count / total),',
        NORMALIZE,
    ),
    Defect(
        'normalizer: rewards are centred',
        'parts/normalize.py',
        '(), center=False, clip=clip, ranks=ranks',
        '(), center=True, clip=clip, ranks=ranks',
        NORMALIZE,
    ),
    Defect(
        'trpo: the step is too long by the square root of two',
        'algorithms/trpo/trpo.py',
        'length = tf.sqrt(2 * radius / square)',
        'length = tf.sqrt(4 * radius / square)',
        'algorithms/test_trpo.py',
    ),
    Defect(
        'trpo: the line search accepts a worse loss',
        'algorithms/trpo/trpo.py',
        "good &= after['loss'] <= before['loss']",
        "good &= after['loss'] >= before['loss']",
        'algorithms/test_trpo.py',
    ),
    Defect(
        'trpo: rejected steps stay in the weights',
        'algorithms/trpo/trpo.py',
        'self._weights.assign(tf.where(taken, self._weights.read(), start))',
        'self._weights.assign(self._weights.read())',
        'algorithms/test_trpo.py',
    ),
    Defect(
        'conjugate gradients: directions with the wrong factor',
        'parts/conjugate.py',
        'turned = residual + new / square * direction',
        'turned = residual + square / new * direction',
        'parts/test_conjugate.py',
    ),
    Defect(
        'fisher product: twice the curvature',
        'parts/gradients.py',
        'divergence = tf.reduce_mean(here.kl(there))',
        'divergence = 2 * tf.reduce_mean(here.kl(there))',
        'parts/test_gradients.py algorithms/test_trpo.py',
    ),
    Defect(
        'gradients: parts are added rather than averaged',
        'parts/gradients.py',
        'nested.map(lambda x: x * (size / count), total)',
        'total',
        'parts/test_gradients.py',
    ),
    Defect(
        'acktr: damping with exchanged factors',
        'parts/kronecker.py',
        'tf.cast(_inverse(second, root / ratio), tf.float32),',
        'tf.cast(_inverse(second, root * ratio), tf.float32),',
        'parts/test_kronecker.py',
    ),
    Defect(
        'acktr: the trust region has twice the radius',
        'parts/natural.py',
        'bound = tf.sqrt(2 * self._max_kl / tf.maximum(square, 1e-30))',
        'bound = 2 * tf.sqrt(2 * self._max_kl / tf.maximum(square, 1e-30))',
        'parts/test_natural.py',
    ),
    Defect(
        'reinforce: learns to avoid what was rewarded',
        'parts/losses.py',
        'return -tf.reduce_mean(advantage * log_prob)',
        'return tf.reduce_mean(advantage * log_prob)',
        'algorithms/test_losses.py algorithms/test_reinforce.py',
    ),
    Defect(
        'gail: labels are exchanged',
        'algorithms/gail/discriminator.py',
        'loss = cross_entropy(mine, shown)',
        'loss = cross_entropy(shown, mine)',
        'algorithms/test_gail.py',
    ),
    Defect(
        'gail: the slope penalty aims at zero',
        'algorithms/gail/discriminator.py',
        'return tf.reduce_mean((norm - 1) ** 2)',
        'return tf.reduce_mean(norm**2)',
        'algorithms/test_gail.py',
    ),
    Defect(
        'memory: states survive the end of an episode',
        'parts/sequences.py',
        'return step(network, inputs, forget(carry[1], begins))',
        'return step(network, inputs, carry[1])',
        'parts/test_sequences.py',
    ),
    Defect(
        'rollout: episodes begin one step late',
        'parts/record.py',
        "begins=tf.concat([start['begins'][None], done[:-1]], 0),",
        'begins=done,',
        'parts/test_record.py',
    ),
    Defect(
        'acting: the same noise in every step',
        'algorithms/collector.py',
        'count = self._rollouts * self._steps + self._recorder.length',
        'count = self._rollouts * self._steps',
        'algorithms/test_on_policy.py algorithms/test_actor.py',
    ),
    Defect(
        'values: of the next observation after an episode was cut off',
        'algorithms/on_policy.py',
        'returns.successor_value(value, cut_value, done),',
        'tf.concat([value[1:], cut_value[-1:]], 0),',
        'algorithms/test_joint_learner.py algorithms/test_on_policy.py',
    ),
    Defect(
        'lost steps: learnt from as if nothing had happened',
        'algorithms/on_policy.py',
        'tf.where(lost, value, reward),',
        'reward,',
        'algorithms/test_on_policy.py',
    ),
    Defect(
        'schedule: the learning rate does not fall',
        'algorithms/on_policy.py',
        'scale = tf.maximum(1.0 - steps / self._config.steps, 0.0)',
        'scale = tf.maximum(1.0 - 0 * steps / self._config.steps, 0.0)',
        'algorithms/test_on_policy.py algorithms/test_ppo.py',
    ),
    Defect(
        'cartpole: the pole is pulled the other way',
        'environments/cartpole.py',
        'force = tf.where(action == 1, FORCE, -FORCE)',
        'force = tf.where(action == 0, FORCE, -FORCE)',
        'environments/test_parity.py',
    ),
    Defect(
        'scores: episodes whose last step was lost count',
        'tools/graph/episode_scores.py',
        'whole = done & ~lost',
        'whole = done',
        'tools/graph/test_episode_scores.py',
    ),
    Defect(
        'checkpoints: the hash is not compared',
        'tools/runs/checkpoints.py',
        'if _summary(path / TENSORS) != expected[TENSORS]:',
        "if _summary(path / TENSORS)['bytes'] != expected[TENSORS]['bytes']:",
        CHECKPOINTS,
    ),
    Defect(
        'checkpoints: the worst one is the best',
        'tools/runs/checkpoints.py',
        'key=lambda each: (-each.score, each.step)',
        'key=lambda each: (each.score, each.step)',
        'tools/runs',
    ),
    Defect(
        'checkpoints: written without forcing them to the disk',
        'tools/runs/checkpoints.py',
        '    files.sync(path / TENSORS)\n',
        '',
        'tools/runs',
    ),
    Defect(
        'workers: the parent sleeps and is not woken up',
        'tools/workers/turns.py',
        'return not IN_ORDER or numbers[AWAITED] == number',
        'return not IN_ORDER',
        f'{WORKERS}/test_turns.py {WORKERS}/test_external_process.py',
    ),
    Defect(
        'workers: a reply counts before it is there',
        'tools/workers/turns.py',
        'return IN_ORDER and self._numbers[ANSWERED] == number',
        'return IN_ORDER and self._numbers[ANSWERED] <= number',
        f'{WORKERS}/test_turns.py {BATCH}/test_batch_env.py {WORKERS}/test_external_process.py',
    ),
    Defect(
        'workers: they outlive a killed parent',
        'tools/workers/worker.py',
        '    _die_with_parent(lifeline, parent)\n    processes',
        '    processes',
        f'{WORKERS}/test_worker.py',
    ),
    Defect(
        'batch: the true successor is the first observation',
        'tools/batch/env_slice.py',
        'self._write = self._next_observ.write',
        'self._write = self._observ.write',
        f'{BATCH}/test_env_slice.py {BATCH}/test_batch_env.py',
    ),
    Defect(
        'batch: environments that were not asked to are reset',
        'tools/batch/env_slice.py',
        "marked = self._request['reset'] > 0.5",
        "marked = self._request['reset'] > -0.5",
        f'{BATCH}/test_env_slice.py {BATCH}/test_batch_env.py',
    ),
)


def run(defect: Defect, keep_going: bool) -> tuple[list[str], float]:
    """Run the tests on a copy with a defect.

    Returns:
        The tests that failed, and the seconds that all took.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, place / name)
        path = place / 'agents' / defect.path
        text = path.read_text()
        if text.count(defect.old) != 1:
            raise ValueError(
                f'{defect.path} must contain the text of {defect.name!r} '
                f'once, got {text.count(defect.old)} times.'
            )
        path.write_text(text.replace(defect.old, defect.new))
        tests = [str(place / 'tests' / test) for test in defect.tests.split()]
        command = [sys.executable, '-m', 'pytest', '-n0', '-rfE', *tests]
        started = time.perf_counter()
        try:
            result = subprocess.run(
                command if keep_going else [*command, '-x'],
                cwd=place,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env={**os.environ, 'PYTHONPATH': directory},
            )
        except subprocess.TimeoutExpired:
            return [f'more than {SECONDS} s'], SECONDS
        seconds = time.perf_counter() - started
    failed = re.findall(r'^(?:FAILED|ERROR) (\S+)', result.stdout, re.M)
    if result.returncode and not failed:
        raise RuntimeError(result.stdout + result.stderr)
    return [re.sub(r'^.*?tests/', '', name) for name in failed], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', help='parts of names (all)')
    parser.add_argument('--keep-going', action='store_true', help='list all tests that fail')
    given = parser.parse_args()
    chosen = [
        defect
        for defect in DEFECTS
        if not given.names or any(name in defect.name for name in given.names)
    ]
    missed = 0
    for defect in chosen:
        failed, seconds = run(defect, given.keep_going)
        missed += not failed
        noticed = ', '.join(failed) or 'MISSED'
        print(f'{seconds:5.1f} s  {defect.name}: {noticed}', flush=True)
    print(f'{len(chosen) - missed} of {len(chosen)} defects noticed')


if __name__ == '__main__':
    main()
