"""Rewards from the output of a discriminator.

Each is a function of the logit l of D(s, a), the probability that a step was
demonstrated: l = ln D − ln (1 − D).
"""

from agents.tools.graph.backend import tf

FORMS = {
    # −ln (1 − D), as in Ho and Ermon 2016: never negative.
    'gail': tf.nn.softplus,
    # ln D: never positive.
    'log': tf.math.log_sigmoid,
    # ln D − ln (1 − D), as in Fu et al. 2018, AIRL.
    'airl': tf.identity,
}
