"""Definitions of all settings: default, kind, unit and meaning.

The defaults of `configs`, the validation in `checks`, the output of `--settings` and
docs/settings.md derive from this table. A new setting is an entry of a group; the settings of a new
algorithm are a group in ALGORITHM_GROUPS.
"""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from agents.config import kinds
from agents.config.kinds import Kind
from agents.tools.attr_dict import AttrDict

# Names that Keras and `networks.py` know, which cannot be asked for them
# without importing TensorFlow.
ACTIVATIONS = (
    'celu', 'elu', 'exponential', 'gelu', 'glu', 'hard_shrink',
    'hard_sigmoid', 'hard_silu', 'hard_swish', 'hard_tanh', 'leaky_relu',
    'linear', 'log_sigmoid', 'log_softmax', 'mish', 'relu', 'relu6', 'selu',
    'sigmoid', 'silu', 'soft_shrink', 'softmax', 'softplus', 'softsign',
    'sparse_plus', 'sparse_sigmoid', 'sparsemax', 'squareplus', 'swish',
    'tanh', 'tanh_shrink', 'threshold',
)  # fmt: skip
NETWORKS = 'feed_forward', 'recurrent'

# Names that `wrappers.py` knows, which takes long to import.
OBSERV_BOUNDS = 'clip', 'error'

# How the names of environments written in TensorFlow begin.
NATIVE = 'native:'

# Names that other libraries have for settings.
SYNONYMS = {
    'lr': 'learning_rate',
    'gamma': 'discount',
    'lambda': 'gae_lambda',
    'lam': 'gae_lambda',
    'total_timesteps': 'steps',
    'timesteps': 'steps',
    'n_steps': 'update_every',
    'num_steps': 'update_every',
    'n_envs': 'num_agents',
    'num_envs': 'num_agents',
    'n_epochs': 'update_epochs',
    'epochs': 'update_epochs',
    'minibatch_size': 'batch_size',
    'ent_coef': 'entropy_bonus',
    'entropy_coef': 'entropy_bonus',
    'vf_coef': 'value_weight',
    'clip_coef': 'clip_range',
    'max_grad_norm': 'gradient_clip',
    'target_kl': 'kl_stop',
    'max_episode_steps': 'max_length',
    'anneal_lr': 'learning_rate_schedule',
    'net_arch': 'policy_layers',
}

# Units, as a user counts.
ALL_STEPS = 'steps of all agents'
AGENT_STEPS = 'steps of each agent'
DEVIATIONS = 'standard deviations'


@dataclasses.dataclass(frozen=True)
class Setting:
    """Definition of a setting.

    Attributes:
        default: Default value.
        kind: Allowed values.
        meaning: Description in one line.
        unit: Unit of a number, if it has one.
        safe_texts: Pattern of texts that name no code, for settings whose other texts name a file
            or a module; None if no text names code. See `agents.config.trust`.
    """

    default: Any
    kind: Kind
    meaning: str
    unit: str = ''
    safe_texts: str | None = None


@dataclasses.dataclass(frozen=True)
class Group:
    """Settings that belong together.

    Attributes:
        title: Title.
        settings: Settings by name.
        defaults: Defaults by name that differ from those of the settings, for an algorithm.
    """

    title: str
    settings: Mapping[str, Setting]
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


ENVIRONMENTS = Group(
    'Environments',
    {
        'env': Setting(
            'CartPole-v1',
            kinds.ENVIRONMENT,
            'Environment by Id, module:Id, native:, vector: or envpool:Id, or '
            'a class or function that makes it',
            # What is before a colon is imported; ale_py is an extra of ours.
            safe_texts=r'(native:|vector:|envpool:)?([^:]*|ale_py:ALE/[\w-]+)',
        ),
        'env_kwargs': Setting(
            {},
            kinds.NAMED_VALUES,
            'Keyword arguments that the environment is made with',
            # What an environment takes its arguments for is unknown.
            safe_texts=r'[\w-]*',
        ),
        'max_length': Setting(
            None,
            kinds.AGENT_STEPS_OR_NONE,
            'Steps after which an episode is truncated; None is the limit of '
            'the environment, if it has one',
            AGENT_STEPS,
        ),
        'observ_bounds': Setting(
            'ignore',
            kinds.one_of('ignore', *OBSERV_BOUNDS),
            'Treatment of observations beyond the bounds of their space',
        ),
        'action_masks': Setting(
            True,
            kinds.FLAG,
            "Apply action masks of info['action_mask'] or a method action_masks",
        ),
        'log_info': Setting(
            [],
            kinds.COLUMNS,
            'Names of numbers in info whose means over steps are reported; a/b is b within a',
        ),
        'num_agents': Setting(
            8, kinds.ENVIRONMENTS, 'Number of environments that step in parallel', 'environments'
        ),
        'num_workers': Setting(
            None,
            kinds.PROCESSES_OR_NONE,
            'Number of worker processes of a rank; None is one per core',
            'processes',
        ),
        'worker_timeout': Setting(
            60.0,
            kinds.POSITIVE,
            'Timeout of a request to a worker',
            'seconds',
        ),
        'worker_restarts': Setting(
            0,
            kinds.COUNT_OR_ZERO,
            'Number of restarts of failed workers per rank, whose episodes are '
            'truncated; the next failure ends the run',
            'times',
        ),
    },
)

SCHEDULE = Group(
    'Training',
    {
        'seed': Setting(0, kinds.SEED, 'Random seed'),
        'steps': Setting(
            1_000_000,
            kinds.COUNT,
            'Training steps in total, rounded up to whole rollouts',
            ALL_STEPS,
        ),
        'begin_from': Setting(
            None,
            kinds.RUN_OR_NONE,
            'Directory of a run whose weights and statistics initialize a new one; '
            'may end with @step or @best',
        ),
        'update_every': Setting(256, kinds.ROWS, 'Rollout length between two updates', AGENT_STEPS),
        'eval_every': Setting(
            50_000,
            kinds.COUNT,
            'Training steps between two evaluations; the last is at the end',
            ALL_STEPS,
        ),
        'eval_episodes': Setting(
            10,
            kinds.ENVIRONMENTS,
            'Episodes of an evaluation, each in an environment of its own',
            'episodes',
        ),
        'log_every': Setting(
            None,
            kinds.COUNT_OR_NONE,
            'Training steps between two rows of progress.csv; None is a hundredth of all',
            ALL_STEPS,
        ),
        'checkpoint_every': Setting(
            1,
            kinds.COUNT,
            'Evaluations between two checkpoints, except for a new best one',
            'evaluations',
        ),
        'callbacks': Setting(
            [],
            kinds.CALLBACKS,
            'Functions that are called with every report, also as file.py:function',
            safe_texts='',
        ),
        'keep_checkpoints': Setting(
            5,
            kinds.CHECKPOINTS,
            'Number of last checkpoints to keep beside the best, in case that the last is damaged',
            'checkpoints',
        ),
    },
)

NETWORK = Group(
    'Networks',
    {
        'network': Setting(
            'feed_forward',
            kinds.one_of(*NETWORKS, or_function=True),
            'Name of a network in networks.py, or a function',
        ),
        'policy_layers': Setting([64, 64], kinds.LAYERS, 'Hidden layers of the policy', 'units'),
        'value_layers': Setting(
            [64, 64], kinds.LAYERS, 'Hidden layers of the value network', 'units'
        ),
        'recurrent_units': Setting(64, kinds.UNITS, 'Size of the recurrent cell, a GRU', 'units'),
        'convolutions': Setting(
            None,
            kinds.CONVOLUTIONS,
            'Convolutions for images; None is atari for 36 pixels or more, else small',
        ),
        'image_units': Setting(
            None,
            kinds.UNITS_OR_NONE,
            'Size of the dense layer after convolutions; None is 512 for atari, else no layer',
            'units',
        ),
        'activation': Setting(
            'tanh',
            kinds.one_of(*ACTIVATIONS, or_function=True),
            'Activation function of the hidden layers',
        ),
        'init_output_factor': Setting(
            0.01, kinds.WEIGHT, 'Gain of the initial weights of the action head'
        ),
        'init_std': Setting(
            1.0, kinds.POSITIVE, 'Initial standard deviation of continuous actions'
        ),
    },
)

LEARNING = Group(
    'Learning',
    {
        'learning_rate': Setting(
            3e-4,
            kinds.POSITIVE,
            'Learning rate of Adam; of the value only with trpo, of K-FAC with acktr',
        ),
        'value_learning_rate': Setting(
            None,
            kinds.POSITIVE_OR_NONE,
            'Learning rate of the value network; None is learning_rate',
        ),
        'learning_rate_schedule': Setting(
            'constant',
            kinds.one_of('constant', 'linear'),
            'Schedule of learning rates; linear decays to zero',
        ),
        'gradient_clip': Setting(
            0.5, kinds.POSITIVE_OR_NONE, 'Norm at which gradients are clipped; None is no limit'
        ),
        'adam_epsilon': Setting(1e-5, kinds.POSITIVE, 'Epsilon of Adam'),
        'discount': Setting(0.99, kinds.FRACTION, 'Discount factor gamma'),
        'gae_lambda': Setting(0.95, kinds.FRACTION, 'Lambda of generalized advantage estimation'),
        'normalize_advantage': Setting(
            True, kinds.FLAG, 'Normalize the advantages of each rollout'
        ),
        'value_clip': Setting(
            None, kinds.POSITIVE_OR_NONE, 'Clip range of value updates; None is no limit'
        ),
    },
)

NORMALIZATION = Group(
    'Normalization by running statistics',
    {
        'normalize_observ': Setting(True, kinds.FLAG, 'Normalize observations'),
        'observ_clip': Setting(
            10.0,
            kinds.POSITIVE_OR_NONE,
            'Limit of normalized observations; None is no limit',
            DEVIATIONS,
        ),
        'reward_limit': Setting(
            None,
            kinds.POSITIVE_OR_NONE,
            'Limit of rewards before normalization; scores use unlimited rewards',
        ),
        'normalize_reward': Setting(
            True, kinds.FLAG, 'Scale rewards by the deviation of discounted returns'
        ),
        'reward_clip': Setting(
            10.0,
            kinds.POSITIVE_OR_NONE,
            'Limit of normalized rewards; None is no limit',
            DEVIATIONS,
        ),
    },
)

IMITATION = Group(
    'Learning from demonstrations',
    {
        'rewards': Setting(
            'environment',
            kinds.one_of('environment', 'airl', 'gail', 'log'),
            'Source of rewards: the environment, or a GAIL discriminator in one of three forms',
        ),
        'demonstrations': Setting(
            None, kinds.FILE_OR_NONE, 'File of demonstrations, as agents record writes it'
        ),
        'demonstration_episodes': Setting(
            None,
            kinds.COUNT_OR_NONE,
            'Number of demonstrated episodes to use; None is all',
            'episodes',
        ),
        'demonstration_every': Setting(1, kinds.COUNT, 'Use every n-th demonstrated step', 'steps'),
        'discriminator_layers': Setting(
            [100, 100], kinds.LAYERS, 'Hidden layers of the discriminator', 'units'
        ),
        'discriminator_rate': Setting(3e-4, kinds.POSITIVE, 'Learning rate of the discriminator'),
        'discriminator_steps': Setting(
            10, kinds.PASSES, 'Gradient steps of the discriminator per rollout', 'steps'
        ),
        'discriminator_batch': Setting(
            256,
            kinds.ROWS,
            'Minibatch size of the discriminator, of policy and expert each',
            'rows',
        ),
        'discriminator_entropy': Setting(
            1e-3, kinds.WEIGHT, 'Weight of the entropy in the loss of the discriminator'
        ),
        'gradient_penalty': Setting(
            1.0, kinds.WEIGHT, 'Weight of the gradient penalty in the loss of the discriminator'
        ),
        'clone_steps': Setting(
            0,
            kinds.PASSES_OR_ZERO,
            'Gradient steps of behaviour cloning: once at first, or per update '
            'with algorithm=behaviour_cloning',
            'steps',
        ),
        'clone_batch_size': Setting(128, kinds.ROWS, 'Minibatch size of behaviour cloning', 'rows'),
    },
)

RANKS = Group(
    'Several ranks (--nprocs, mpiexec)',
    {
        'distribute': Setting(
            'average',
            kinds.one_of('average', 'average_epochs', 'gather'),
            'Synchronization of ranks: mean gradients, mean weights once an epoch, '
            'or rollouts gathered by the first rank',
        ),
        'rank_timeout': Setting(
            300.0,
            kinds.POSITIVE,
            'Timeout of messages between ranks, after which all end',
            'seconds',
        ),
    },
)

SHARED_GROUPS = (ENVIRONMENTS, SCHEDULE, NETWORK, LEARNING, NORMALIZATION, IMITATION, RANKS)

# Settings of several algorithms, but not of all.
ENTROPY_BONUS = Setting(0.0, kinds.WEIGHT, 'Weight of the entropy in the loss')
KL_TARGET = Setting(0.01, kinds.POSITIVE, 'Target KL divergence of an update', 'nats')
DAMPING = Setting(0.1, kinds.POSITIVE, 'Damping: number added to the diagonal of the Fisher matrix')
VALUE_EPOCHS = Setting(10, kinds.PASSES, 'Epochs of the value network per rollout', 'epochs')
VALUE_BATCH_SIZE = Setting(64, kinds.ROWS, 'Minibatch size of the value network', 'rows')

ALGORITHM_GROUPS = {
    'ppo': Group(
        'Proximal policy optimization',
        {
            'update_epochs': Setting(10, kinds.PASSES, 'Epochs per rollout', 'epochs'),
            'batch_size': Setting(64, kinds.ROWS, 'Minibatch size', 'rows'),
            'surrogate': Setting(
                'clip',
                kinds.one_of('clip', 'penalty'),
                'Surrogate objective: clip limits the probability ratio, penalty the KL divergence',
            ),
            'clip_range': Setting(
                0.2,
                kinds.POSITIVE,
                'Clip range epsilon of the probability ratio, with surrogate=clip',
            ),
            'kl_target': dataclasses.replace(
                KL_TARGET, meaning=f'{KL_TARGET.meaning}, with surrogate=penalty'
            ),
            'kl_init_penalty': Setting(
                1.0, kinds.WEIGHT, 'Initial weight of the KL divergence, with surrogate=penalty'
            ),
            'kl_cutoff_factor': Setting(
                2.0,
                kinds.WEIGHT,
                'KL divergence where the cutoff begins, with surrogate=penalty',
                'kl_targets',
            ),
            'kl_cutoff_coef': Setting(
                1000.0, kinds.WEIGHT, 'Weight of the cutoff, with surrogate=penalty'
            ),
            'kl_stop': Setting(
                None,
                kinds.POSITIVE_OR_NONE,
                'KL divergence that ends the epochs early; None is never',
                'nats',
            ),
            'entropy_bonus': ENTROPY_BONUS,
            'shared_encoder': Setting(
                None,
                kinds.FLAG_OR_NONE,
                'Share an encoder between policy and value, learnt with one loss; '
                'None is for images only',
            ),
            'value_weight': Setting(
                1.0,
                kinds.WEIGHT,
                'Weight of the value loss, with shared_encoder',
            ),
        },
    ),
    'reinforce': Group(
        'REINFORCE with a value baseline',
        {
            'value_epochs': VALUE_EPOCHS,
            'value_batch_size': VALUE_BATCH_SIZE,
            'entropy_bonus': ENTROPY_BONUS,
        },
        defaults={'gae_lambda': 0.97},
    ),
    'trpo': Group(
        'Trust region policy optimization',
        {
            'kl_target': dataclasses.replace(
                KL_TARGET, meaning=f'{KL_TARGET.meaning}: the trust region'
            ),
            'conjugate_steps': Setting(
                15,
                kinds.PASSES,
                'Maximum conjugate-gradient iterations',
                'iterations',
            ),
            'damping': DAMPING,
            'fisher_every': Setting(
                5, kinds.ROWS, 'Use every n-th row for the Fisher matrix', 'rows'
            ),
            'line_search': Setting(
                True,
                kinds.FLAG,
                'Backtrack steps that leave the trust region or worsen the policy; '
                'false gives natural policy gradients',
            ),
            'search_steps': Setting(
                10, kinds.PASSES, 'Maximum step lengths tried by the line search', 'lengths'
            ),
            'backtrack_factor': Setting(
                0.8, kinds.FRACTION, 'Factor between step lengths of the line search'
            ),
            'value_epochs': VALUE_EPOCHS,
            'value_batch_size': VALUE_BATCH_SIZE,
            'entropy_bonus': ENTROPY_BONUS,
        },
        defaults={'learning_rate': 1e-3, 'value_epochs': 20, 'value_batch_size': 128},
    ),
    'acktr': Group(
        'Actor critic using Kronecker-factored trust regions',
        {
            'kl_target': dataclasses.replace(
                KL_TARGET, meaning=f'{KL_TARGET.meaning}, which the step size adapts to'
            ),
            'kl_clip': Setting(
                0.02,
                kinds.POSITIVE,
                'Maximum KL divergence of a step, predicted by its curvature',
                'nats',
            ),
            'damping': DAMPING,
            'factor_decay': Setting(
                0.95, kinds.FRACTION, 'Decay rate of the running means of Kronecker factors'
            ),
            'inverse_every': Setting(
                2,
                kinds.PASSES,
                'Steps between two inversions of the Kronecker factors',
                'steps of the policy or the value',
            ),
            'cold_steps': Setting(
                1, kinds.COUNT_OR_ZERO, 'Steps along the plain gradient at first', 'steps'
            ),
            'momentum': Setting(0.0, kinds.FRACTION, 'Momentum coefficient'),
            'value_kl_clip': Setting(
                0.01, kinds.POSITIVE, 'Same as kl_clip, of the value network', 'nats'
            ),
            'value_damping': Setting(0.1, kinds.POSITIVE, 'Same as damping, of the value network'),
            'value_factor_decay': Setting(
                0.95, kinds.FRACTION, 'Same as factor_decay, of the value network'
            ),
            'value_cold_steps': Setting(
                10, kinds.COUNT_OR_ZERO, 'Same as cold_steps, of the value network', 'steps'
            ),
            'value_epochs': VALUE_EPOCHS,
            'value_batch_size': VALUE_BATCH_SIZE,
            'entropy_bonus': ENTROPY_BONUS,
        },
        defaults={'learning_rate': 0.1, 'damping': 0.01, 'value_batch_size': 512},
    ),
    'behaviour_cloning': Group('Behaviour cloning', {}, defaults={'clone_steps': 100}),
}


def list_groups(algorithm: Any) -> list[Group]:
    """Return the groups of settings of an algorithm, with its defaults.

    Args:
        algorithm: Name. Unknown names have the groups of all algorithms, as the name may come from
            any file.
    """
    if algorithm not in list(ALGORITHM_GROUPS):
        return list(SHARED_GROUPS)
    name = dataclasses.replace(SETTINGS['algorithm'], default=algorithm)
    own = ALGORITHM_GROUPS[algorithm]
    groups = [
        *SHARED_GROUPS,
        dataclasses.replace(own, settings={'algorithm': name, **own.settings}),
    ]
    return [
        dataclasses.replace(
            group,
            settings={
                key: dataclasses.replace(setting, default=own.defaults[key])
                if key in own.defaults
                else setting
                for key, setting in group.settings.items()
            },
        )
        for group in groups
    ]


def find_defaults(algorithm: Any) -> AttrDict:
    """Return the default settings of an algorithm."""
    defaults = {
        name: setting.default
        for group in list_groups(algorithm)
        for name, setting in group.settings.items()
    }
    # Lists and dictionaries of a config are its own, to be changed at will.
    return AttrDict(copy.deepcopy(defaults))


def define_config(algorithm: str, /, **changes: Any) -> AttrDict:
    """Make a config from the defaults and the given changes.

    Refuses settings that the algorithm does not have.
    """
    return use_whole_numbers(find_defaults(algorithm).copy(**changes))


def use_whole_numbers(config: AttrDict) -> AttrDict:
    """Return the config with integers where a count was written as 1e6."""
    counts = {
        key: SETTINGS[key].kind.convert(value)
        for key, value in config.items()
        if key in SETTINGS and SETTINGS[key].kind.type is int
    }
    return config.copy(**counts)


# Kinds and meanings of all settings by name. Some defaults are others with some
# algorithms, see `find_defaults`.
SETTINGS = {
    'algorithm': Setting(
        'ppo',
        kinds.one_of(*ALGORITHM_GROUPS, or_function=True),
        'Algorithm that learns, by name, or a class of yours',
    ),
    **{
        name: setting
        for group in (*SHARED_GROUPS, *reversed(ALGORITHM_GROUPS.values()))
        for name, setting in group.settings.items()
    },
}
