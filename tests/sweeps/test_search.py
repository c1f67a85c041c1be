"""Searches for settings, without trials."""

import pytest

from agents.scripts import configs
from agents.sweeps import search
from agents.sweeps.search import Choice, Grid, Range, Result, Search

SPACE = {
    'learning_rate': Range(1e-5, 1e-2, True, False),
    'num_agents': Range(2, 64, True, True),
    'policy_layers': Choice([[4], [4, 4], []]),
}


def draw(points, count):
    return [points.next() for _ in range(count)]


def test_grid_has_all_combinations():
    grid = Grid({'a': [1, 2], 'b': ['x', 'y']})
    assert draw(grid, 5) == [
        {'a': 1, 'b': 'x'},
        {'a': 1, 'b': 'y'},
        {'a': 2, 'b': 'x'},
        {'a': 2, 'b': 'y'},
        None,
    ]
    assert draw(Grid({}), 2) == [{}, None]


def test_space_is_read_as_settings_are():
    texts = {
        'learning_rate': 'log:1e-5..1e-2',
        'num_agents': '2..64',
        'policy_layers': '[4],[4, 4],[]',
        'network': 'recurrent,feed_forward',
        'discount': '0..1',
    }
    assert search.parse_space(configs.debug(), texts) == {
        **SPACE,
        'num_agents': Range(2, 64, False, True),
        'network': Choice(['recurrent', 'feed_forward']),
        'discount': Range(0.0, 1.0, False, False),
    }


def test_points_are_in_the_space_and_short():
    points = draw(Search(SPACE, 20, 10), 20)
    for values in points:
        assert list(values) == list(SPACE)
        assert all(SPACE[key].allows(each) for key, each in values.items())
        rate = values['learning_rate']
        assert rate == float(f'{rate:.4g}')
    assert all(type(values['num_agents']) is int for values in points)
    assert not SPACE['num_agents'].allows(2.5)
    assert {len(values['policy_layers']) for values in points} == {0, 1, 2}
    assert draw(Search(SPACE, 20, 10), 20) == points
    assert draw(Search(SPACE, 2, 10), 3) == [*points[:2], None]


def test_search_goes_where_scores_are_high():
    points = Search({'discount': Range(0.0, 1.0, False, False)}, 40, 10)
    found = []
    for number in range(40):
        value = points.next()['discount']
        found.append(value)
        points.tell(number, -abs(value - 0.8), 'finished')
    # By chance four of ten would be.
    assert sum(abs(value - 0.8) < 0.2 for value in found[-10:]) >= 7


def test_search_goes_on_with_what_is_known():
    first = draw(Search(SPACE, 5, 10), 5)
    states = ['finished', 'failed', 'pruned', 'finished', 'begun']
    results = [
        Result(values, 1.0 if state == 'finished' else None, [0.5], state)
        for values, state in zip(first, states, strict=True)
    ]
    points = Search(SPACE, 7, 10, results)
    again = draw(points, 7)
    assert again[:5] == first and again[5] not in first
    for number, state in ((4, 'finished'), (5, 'failed'), (6, 'pruned')):
        points.tell(number, 2.0 if state == 'finished' else None, state)
    assert points.next() is None
    counts = [trial.state.name for trial in points._study.trials]
    assert sorted(counts) == sorted(
        ['COMPLETE', 'FAIL', 'PRUNED', 'COMPLETE', 'COMPLETE', 'FAIL', 'PRUNED']
    )


@pytest.mark.parametrize('score, given_up', [(-1.0, True), (9.0, False)])
def test_points_below_the_median_are_given_up(score, given_up):
    count = search.PRUNE_AFTER + 1
    points = Search(SPACE, count, 8)
    draw(points, count)
    for point in range(count - 1):
        for number in range(8):
            assert not points.report(point, number, float(point))
        points.tell(point, float(point), 'finished')
    reports = [points.report(count - 1, number, score) for number in range(8)]
    # Not before a quarter of the evaluations.
    assert reports == [False, False, *[given_up] * 6]
