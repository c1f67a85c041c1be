"""Experiments, as functions that return their settings.

A config names an environment and an algorithm and says what differs from the
defaults, which docs/settings.md lists and `settings.py` defines. Run one of
these by name, or one of your own by file:

    agents train --config=pendulum
    agents train --config=my_configs.py:my_experiment

`agents configs` lists them, and `agents configs pendulum` all settings of one.
"""

from collections.abc import Callable
from typing import Any

from agents.config.settings import define_config
from agents.tools.attr_dict import AttrDict


def ppo(**settings: Any) -> AttrDict:
    """Proximal policy optimization, see agents/algorithms/ppo."""
    return define_config('ppo', **settings)


def reinforce(**settings: Any) -> AttrDict:
    """REINFORCE with a value baseline, see agents/algorithms/reinforce."""
    return define_config('reinforce', **settings)


def trpo(**settings: Any) -> AttrDict:
    """Trust region policy optimization, see agents/algorithms/trpo."""
    return define_config('trpo', **settings)


def npg(**settings: Any) -> AttrDict:
    """Natural policy gradients, see agents/algorithms/trpo."""
    return trpo(line_search=False, **settings)


def acktr(**settings: Any) -> AttrDict:
    """Natural gradients of Kronecker factors, see agents/algorithms/acktr."""
    return define_config('acktr', **settings)


def behaviour_cloning(**settings: Any) -> AttrDict:
    """Actions as in `demonstrations`, see agents/algorithms/gail."""
    return define_config('behaviour_cloning', **settings)


def gail(algorithm: str = 'trpo', **settings: Any) -> AttrDict:
    """Rewards for what is as in `demonstrations`, see agents/algorithms/gail.

    Args:
        algorithm: What learns from them.
        settings: Settings of the algorithm.
    """
    return define_config(algorithm, **{'rewards': 'airl', **settings})


# What learns, by the function above that has its defaults.
ALGORITHMS = ('ppo', 'reinforce', 'trpo', 'npg', 'acktr', 'gail', 'behaviour_cloning')


def algorithm_of(config: AttrDict) -> str:
    """Return the function above that a config is made by."""
    if config.rewards != 'environment':
        return 'gail'
    natural = config.algorithm == 'trpo' and not config.line_search
    return 'npg' if natural else config.algorithm


# Steps of TRPO for small tasks: long ones that shrink to nothing, and damped,
# as few rows tell little of the curvature.
SMALL_TRPO: dict[str, Any] = {'learning_rate_schedule': 'linear', 'kl_target': 0.02, 'damping': 1.0}

# Tasks, for configs of several algorithms.
CARTPOLE: dict[str, Any] = {'env': 'CartPole-v1', 'max_length': 500, 'discount': 0.98}
PENDULUM: dict[str, Any] = {
    'env': 'Pendulum-v1',
    'max_length': 200,
    'num_agents': 16,
    'update_every': 128,
    'eval_every': 20_000,
    'eval_episodes': 20,
    'discount': 0.95,
}
CARTPOLE_TRPO: dict[str, Any] = {
    **CARTPOLE,
    **SMALL_TRPO,
    'steps': 100_000,
    'update_every': 128,
    'eval_every': 10_000,
}
PENDULUM_TRPO: dict[str, Any] = {**PENDULUM, **SMALL_TRPO, 'steps': 400_000}
HOPPER: dict[str, Any] = {'env': 'Hopper-v5', 'discount': 0.995}
SWIMMER: dict[str, Any] = {'env': 'Swimmer-v5', 'discount': 0.9999}
DOUBLE_PENDULUM: dict[str, Any] = {
    'env': 'InvertedDoublePendulum-v5',
    'normalize_reward': False,
    'discount': 0.98,
}


def mujoco(env: str, define: Callable[..., AttrDict] = ppo, **settings: Any) -> AttrDict:
    """Settings for the locomotion tasks of MuJoCo; install `agents[mujoco]`.

    Args:
        env: Id of the environment.
        define: Base of the algorithm.
        settings: Changed settings.
    """
    defaults = {
        'steps': 1_000_000,
        'num_agents': 32,
        'update_every': 64,
        'learning_rate_schedule': 'linear',
        'init_std': 0.6,
        'eval_every': 100_000,
    }
    return define(env=env, **{**defaults, **settings})


def mujoco_trpo(env: str, define: Callable[..., AttrDict] = trpo, **settings: Any) -> AttrDict:
    """Settings for MuJoCo, for algorithms with one step per rollout."""
    defaults = {
        'num_agents': 8,
        'update_every': 256,
        'learning_rate_schedule': 'constant',
        'kl_target': 0.02,
    }
    return mujoco(env, define, **{**defaults, **settings})


def mujoco_cloning(env: str, **settings: Any) -> AttrDict:
    """Settings for MuJoCo, for behaviour cloning with one step of twenty."""
    defaults = {'steps': 200_000, 'eval_every': 20_000, 'demonstration_every': 20}
    return mujoco(env, behaviour_cloning, **{**defaults, **settings})


def images(env: Any, **settings: Any) -> AttrDict:
    """Settings of PPO for observations that are large images.

    Args:
        env: Environment.
        settings: Changed settings.
    """
    defaults: dict[str, Any] = {
        'num_agents': 8,
        'update_every': 128,
        'update_epochs': 4,
        'batch_size': 256,
        'policy_layers': [],
        'value_layers': [],
        'learning_rate': 2.5e-4,
        'learning_rate_schedule': 'linear',
        'clip_range': 0.1,
        'entropy_bonus': 0.01,
    }
    return ppo(env=env, **{**defaults, **settings})


def atari(game: str, **settings: Any) -> AttrDict:
    """The usual settings of PPO for Atari; install `agents[atari]`.

    Those of Stable-Baselines3's zoo, but episodes are whole games, whatever
    lives are lost, unless `env_kwargs={'episodic_life': True}`. With
    `env_kwargs={'repeat_action_probability': 0.25}` actions are repeated by
    chance, as Machado et al. 2018 propose in Revisiting the Arcade Learning
    Environment, which takes longer to learn.

    Args:
        game: Name of the game, such as `Pong` or `space_invaders`.
        settings: What differs.
    """
    if game.islower():
        game = game.title().replace('_', '')
    usual = {'repeat_action_probability': 0.0}
    given = {**usual, **settings.pop('env_kwargs', {})}
    defaults: dict[str, Any] = {
        'env_kwargs': given,
        'max_length': 27_000,  # Half an hour of the game.
        'steps': 10_000_000,
        'eval_every': 500_000,
        'eval_episodes': 8,
        'normalize_observ': False,
        'normalize_reward': False,
        'reward_limit': 1.0,
    }
    env = f'vector:ale_py:ALE/{game}-v5'
    return images(env, **{**defaults, **settings})


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
    return ppo(**PENDULUM, steps=200_000, learning_rate=1e-3, learning_rate_schedule='linear')


def pendulum_trpo() -> AttrDict:
    return trpo(**PENDULUM_TRPO)


def pendulum_npg() -> AttrDict:
    return npg(**PENDULUM_TRPO)


def pendulum_acktr() -> AttrDict:
    return acktr(
        **PENDULUM, steps=200_000, learning_rate_schedule='linear', kl_target=0.02, kl_clip=0.03
    )


def pendulum_gail() -> AttrDict:
    return gail(**PENDULUM, steps=500_000)


def pendulum_cloning() -> AttrDict:
    return behaviour_cloning(**PENDULUM, steps=100_000)


def cartpole() -> AttrDict:
    return ppo(
        **CARTPOLE,
        steps=100_000,
        update_every=128,
        batch_size=256,
        eval_every=5_000,
        learning_rate=1e-3,
        learning_rate_schedule='linear',
    )


def cartpole_reinforce() -> AttrDict:
    return reinforce(
        **CARTPOLE,
        steps=500_000,
        update_every=64,
        eval_every=25_000,
        learning_rate=5e-3,
        learning_rate_schedule='linear',
    )


def cartpole_trpo() -> AttrDict:
    return trpo(**CARTPOLE_TRPO)


def cartpole_npg() -> AttrDict:
    return npg(**CARTPOLE_TRPO)


def cartpole_acktr() -> AttrDict:
    return acktr(**CARTPOLE, steps=100_000, eval_every=10_000)


def cartpole_gail() -> AttrDict:
    """Needs --set demonstrations=FILE, as do others that learn from some."""
    return gail(**CARTPOLE, steps=200_000, eval_every=20_000)


def cartpole_cloning() -> AttrDict:
    return behaviour_cloning(**CARTPOLE, steps=40_000, eval_every=8_000)


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
    return mujoco(**HOPPER)


def ant() -> AttrDict:
    return mujoco('Ant-v5', gae_lambda=0.9, learning_rate=2e-4)


def pong() -> AttrDict:
    return atari('Pong')


def breakout() -> AttrDict:
    return atari('Breakout')


def swimmer() -> AttrDict:
    return mujoco(**SWIMMER, num_agents=8, update_every=1024)


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
    return mujoco(**DOUBLE_PENDULUM, learning_rate=1e-4)


def cheetah_trpo() -> AttrDict:
    return mujoco_trpo('HalfCheetah-v5')


def hopper_trpo() -> AttrDict:
    return mujoco_trpo(**HOPPER)


def walker_trpo() -> AttrDict:
    return mujoco_trpo('Walker2d-v5')


def ant_trpo() -> AttrDict:
    return mujoco_trpo(
        'Ant-v5', gae_lambda=0.9, init_std=0.3, observ_clip=3.0, kl_target=0.04, damping=1.0
    )


def swimmer_trpo() -> AttrDict:
    return mujoco_trpo(**SWIMMER, gae_lambda=0.99, init_std=1.0)


def inverted_double_pendulum_trpo() -> AttrDict:
    # Episodes that last say little; many rows, and smaller steps in the end.
    return mujoco_trpo(
        **DOUBLE_PENDULUM, num_agents=16, update_every=512, learning_rate_schedule='linear'
    )


def cheetah_npg() -> AttrDict:
    return mujoco_trpo('HalfCheetah-v5', npg)


def hopper_npg() -> AttrDict:
    return mujoco_trpo(**HOPPER, define=npg)


def walker_npg() -> AttrDict:
    return mujoco_trpo('Walker2d-v5', npg)


def cheetah_acktr() -> AttrDict:
    return mujoco('HalfCheetah-v5', acktr)


def hopper_acktr() -> AttrDict:
    return mujoco(**HOPPER, define=acktr)


def walker_acktr() -> AttrDict:
    return mujoco('Walker2d-v5', acktr)


def cheetah_reinforce() -> AttrDict:
    return mujoco(
        'HalfCheetah-v5',
        reinforce,
        steps=3_000_000,
        num_agents=8,
        update_every=256,
        eval_every=300_000,
        learning_rate=3e-3,
    )


def cheetah_gail() -> AttrDict:
    return mujoco_trpo('HalfCheetah-v5', gail, demonstration_every=20)


def hopper_gail() -> AttrDict:
    return mujoco_trpo(**HOPPER, define=gail, demonstration_every=20)


def walker_gail() -> AttrDict:
    return mujoco_trpo('Walker2d-v5', gail, demonstration_every=20)


def cheetah_cloning() -> AttrDict:
    return mujoco_cloning('HalfCheetah-v5')


def hopper_cloning() -> AttrDict:
    return mujoco_cloning(**HOPPER)


def walker_cloning() -> AttrDict:
    return mujoco_cloning('Walker2d-v5')


def native(config: AttrDict, **settings: Any) -> AttrDict:
    """Settings for the native version of the environment."""
    return config.copy(env=f'native:{config.env}', **settings)


def cartpole_native() -> AttrDict:
    return native(cartpole())


def pendulum_native() -> AttrDict:
    return native(pendulum())


def cartpole_trpo_native() -> AttrDict:
    return native(cartpole_trpo())


def cartpole_npg_native() -> AttrDict:
    return native(cartpole_npg())


def cartpole_acktr_native() -> AttrDict:
    return native(cartpole_acktr())


def cartpole_gail_native() -> AttrDict:
    return native(cartpole_gail())


def cartpole_cloning_native() -> AttrDict:
    return native(cartpole_cloning())


def pendulum_trpo_native() -> AttrDict:
    return native(pendulum_trpo())


def pendulum_npg_native() -> AttrDict:
    return native(pendulum_npg())


def pendulum_acktr_native() -> AttrDict:
    return native(pendulum_acktr())


def pendulum_gail_native() -> AttrDict:
    return native(pendulum_gail())


def pendulum_cloning_native() -> AttrDict:
    return native(pendulum_cloning())


def cartpole_reinforce_native() -> AttrDict:
    return native(cartpole_reinforce())


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
        network='recurrent',
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
