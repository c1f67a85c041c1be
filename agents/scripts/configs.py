"""Experiments, as functions that return their settings.

A configuration names an environment and an algorithm and says what differs
from the defaults, which stand once, in the functions `ppo` and `reinforce`.
Run one of these by name, or one of your own by file:

    python -m agents.scripts.train --config=pendulum
    python -m agents.scripts.train --config=my_configs.py:my_experiment
"""

from typing import Any

from agents.tools.attr_dict import AttrDict


def default() -> AttrDict:
    """Settings that all algorithms share, with their units."""
    return AttrDict(
        # The environment: a name for gymnasium.make or a function that makes
        # one; called with the settings of env_kwargs.
        env='CartPole-v1',
        env_kwargs={},
        # Steps after which an episode is cut off, where the environment does
        # not do so earlier.
        max_length=1000,
        # What becomes of observations beyond the bounds of their space:
        # 'ignore', 'clip' or 'error'. Some spaces promise too much.
        observ_bounds='ignore',
        # Number of environments that step together.
        num_agents=8,
        # Number of worker processes; None is one per core.
        num_workers=None,
        # Seconds until a worker that does not answer is given up.
        worker_timeout=60.0,
        # How many times in all, for each start of the command, a worker that
        # died, hangs or whose environment failed is started anew; the episodes
        # under way are truncated. With 0, such a failure ends the run.
        worker_restarts=0,
        # Seed of everything random.
        seed=0,
        # Training steps, of all agents together, without evaluation.
        steps=1_000_000,
        # Steps of each agent between two updates.
        update_every=256,
        # Training steps, of all agents together, between two evaluations.
        eval_every=50_000,
        # Episodes in an evaluation, each in an environment of its own.
        eval_episodes=10,
        # Evaluations between two checkpoints.
        checkpoint_every=1,
        # Networks, by name in agents.scripts.networks or as a function; None
        # chooses by the space of actions. Sizes of their layers.
        network=None,
        policy_layers=[64, 64],
        value_layers=[64, 64],
        recurrent_units=64,
        convolution_filters=[16, 32],
        activation='tanh',
        # Scale of the weights before the actions, and the deviation of
        # continuous actions at the beginning.
        init_output_factor=0.01,
        init_std=1.0,
        # Adam: step size, that for the value if it differs, its schedule
        # ('constant' or 'linear' to zero), and the largest norm of a gradient.
        learning_rate=3e-4,
        value_learning_rate=None,
        learning_rate_schedule='constant',
        gradient_clip=0.5,
        adam_epsilon=1e-5,
        # Discount of the reward a step later, and the weight of longer returns.
        discount=0.99,
        gae_lambda=0.95,
        normalize_advantage=True,
        # Normalization by running statistics, and limits of the results in
        # standard deviations.
        normalize_observ=True,
        observ_clip=10.0,
        normalize_reward=True,
        reward_clip=10.0,
        # How far a value may move in an update, or None.
        value_clip=None,
    )


def ppo(**settings: Any) -> AttrDict:
    """Proximal policy optimization, see agents/algorithms/ppo."""
    return _define(
        settings,
        algorithm='ppo',
        # Passes over a rollout, and rows of a minibatch.
        update_epochs=10,
        batch_size=64,
        # What keeps the policy near the old one: 'clip' with the range of the
        # probability ratio, or 'penalty' on the divergence in nats with its
        # target, its first weight, and where the cutoff begins (in targets)
        # and how steep it is.
        surrogate='clip',
        clip_range=0.2,
        kl_target=0.01,
        kl_init_penalty=1.0,
        kl_cutoff_factor=2.0,
        kl_cutoff_coef=1000.0,
        # Divergence in nats after which the remaining epochs are left out.
        kl_stop=None,
        # Weight of the entropy in the loss.
        entropy_bonus=0.0,
    )


def reinforce(**settings: Any) -> AttrDict:
    """REINFORCE with a value baseline, see agents/algorithms/reinforce."""
    return _define(
        settings,
        algorithm='reinforce',
        gae_lambda=0.97,
        # Passes over a rollout and rows of a minibatch for the value.
        value_epochs=10,
        value_batch_size=64,
        entropy_bonus=0.0,
    )


def mujoco(env: str, **settings: Any) -> AttrDict:
    """What suits the locomotion of MuJoCo; install `agents[mujoco]`."""
    defaults = {
        'steps': 1_000_000,
        'num_agents': 32,
        'update_every': 64,
        'learning_rate_schedule': 'linear',
        'init_std': 0.6,
        'eval_every': 100_000,
    }
    return ppo(env=env, **{**defaults, **settings})


def _define(settings: dict, **defaults: Any) -> AttrDict:
    """The defaults with an experiment's settings; unknown ones are refused."""
    return AttrDict({**default(), **defaults}).copy(**settings)


def debug() -> AttrDict:
    """Runs in seconds, to see whether everything works."""
    return ppo(
        env='CartPole-v1',
        max_length=50,
        num_agents=4,
        steps=2000,
        update_every=50,
        update_epochs=2,
        batch_size=50,
        eval_every=1000,
        eval_episodes=2,
    )


def pendulum() -> AttrDict:
    return ppo(
        env='Pendulum-v1',
        max_length=200,
        num_agents=16,
        steps=200_000,
        update_every=128,
        eval_every=20_000,
        eval_episodes=20,
        discount=0.95,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
    )


def cartpole() -> AttrDict:
    return ppo(
        env='CartPole-v1',
        max_length=500,
        steps=100_000,
        update_every=32,
        update_epochs=20,
        batch_size=256,
        eval_every=5_000,
        discount=0.98,
        gae_lambda=0.8,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
    )


def cartpole_reinforce() -> AttrDict:
    return reinforce(
        env='CartPole-v1',
        max_length=500,
        steps=500_000,
        update_every=64,
        eval_every=25_000,
        discount=0.98,
        learning_rate=5e-3,
        learning_rate_schedule='linear',
    )


def acrobot() -> AttrDict:
    return ppo(
        env='Acrobot-v1',
        max_length=500,
        num_agents=16,
        steps=200_000,
        update_every=128,
        batch_size=128,
        eval_every=20_000,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
    )


def mountain_car_continuous() -> AttrDict:
    return ppo(
        env='MountainCarContinuous-v0',
        max_length=999,
        num_agents=16,
        steps=300_000,
        update_every=256,
        batch_size=256,
        eval_every=30_000,
        discount=0.999,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
        init_std=2.0,
    )


def reacher() -> AttrDict:
    return mujoco('Reacher-v5', max_length=50, discount=0.9)


def cheetah() -> AttrDict:
    return mujoco('HalfCheetah-v5')


def walker() -> AttrDict:
    return mujoco('Walker2d-v5')


def hopper() -> AttrDict:
    return mujoco('Hopper-v5', discount=0.995)


def ant() -> AttrDict:
    return mujoco('Ant-v5', gae_lambda=0.9, learning_rate=2e-4)


def swimmer() -> AttrDict:
    return mujoco(
        'Swimmer-v5', num_agents=8, update_every=1024, discount=0.9999
    )


def humanoid() -> AttrDict:
    return mujoco(
        'Humanoid-v5',
        steps=2_000_000,
        batch_size=256,
        discount=0.97,
        gae_lambda=0.9,
        learning_rate=1e-4,
    )


def inverted_double_pendulum() -> AttrDict:
    return mujoco(
        'InvertedDoublePendulum-v5',
        normalize_reward=False,
        discount=0.98,
        learning_rate=1e-4,
    )


def native(config: AttrDict, **settings: Any) -> AttrDict:
    """The same on an environment that is written in TensorFlow."""
    return config.copy(env=f'native:{config.env}', **settings)


def cartpole_native() -> AttrDict:
    return native(cartpole())


def pendulum_native() -> AttrDict:
    return native(pendulum())


def acrobot_native() -> AttrDict:
    return native(acrobot())


def mountain_car_continuous_native() -> AttrDict:
    return native(mountain_car_continuous())


def mountain_car_native() -> AttrDict:
    return ppo(
        env='native:MountainCar-v0',
        max_length=200,
        num_agents=64,
        steps=3_000_000,
        update_every=64,
        update_epochs=4,
        batch_size=512,
        eval_every=300_000,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
        gae_lambda=0.98,
        entropy_bonus=0.01,
    )


def memory_native() -> AttrDict:
    return ppo(
        env='native:Memory-v0',
        network='recurrent_categorical',
        max_length=5,
        num_agents=32,
        steps=100_000,
        update_every=32,
        update_epochs=4,
        batch_size=256,
        eval_every=10_000,
        eval_episodes=20,
        learning_rate=1e-3,
    )


def catch_native() -> AttrDict:
    return ppo(
        env='native:Catch-v0',
        network='convolutional_categorical',
        max_length=9,
        num_agents=32,
        steps=100_000,
        update_every=32,
        update_epochs=4,
        batch_size=256,
        eval_every=10_000,
        eval_episodes=20,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
    )
