"""What a step tells."""

from agents.tools.graph.backend import tf
from agents.tools.transition import Transition


def test_episode_is_done_for_either_reason():
    transition = Transition(
        reward=tf.zeros(4),
        terminated=tf.constant([False, False, True, True]),
        truncated=tf.constant([False, True, False, True]),
        next_observ={'x': tf.zeros((4, 2))},
        lost=tf.zeros(4, bool),
    )
    assert transition.done.numpy().tolist() == [False, True, True, True]


def test_transition_is_a_nest_of_its_fields():
    transition = Transition(1, 2, 3, {'b': 5, 'a': 4}, 6)
    assert tf.nest.flatten(transition) == [1, 2, 3, 4, 5, 6]
    doubled = tf.nest.map_structure(lambda x: 2 * x, transition)
    assert isinstance(doubled, Transition)
    assert doubled == (2, 4, 6, {'b': 10, 'a': 8}, 12)
