"""Curves of runs, read from tables that are written down."""

import itertools

import numpy as np
import pytest

from agents.tools.runs import curves


def write(directory, *rows, head='step,phase,score,score_std,seconds'):
    lines = ''.join(f'{row}\n' for row in (head, *rows))
    (directory / 'progress.csv').write_text(lines)
    return directory


def test_curves_are_the_scores_of_a_phase(tmp_path):
    write(tmp_path, '10,train,1.5,,1', '10,eval,2,0.5,2', '20,train,,,3', '20,eval,3,0.25,4')
    train = curves.read(tmp_path, 'train')
    assert (train.steps, train.scores, train.seconds) == (10, 1.5, 1)
    assert np.isnan(train.deviations).all()
    evaluation = [each.tolist() for each in curves.read(tmp_path, 'eval')]
    assert evaluation == [[10, 20], [2, 4], [2, 3], [0.5, 0.25]]
    assert curves.read(tmp_path, 'eval').at('seconds').tolist() == [2, 4]


def test_seconds_of_a_resumed_run_go_on(tmp_path):
    write(
        tmp_path,
        '10,train,1,,5',
        '10,eval,1,,6',
        '20,train,1,,3',  # Resumed after 6 seconds.
        '20,eval,1,,4',
        '30,eval,1,,2',  # Resumed again, after 10.
    )
    assert curves.read(tmp_path, 'eval').seconds.tolist() == [6, 10, 12]


def test_any_numbers_can_be_read(tmp_path):
    scores = ['1e29', '-1e29', '1e308', 'inf', '-inf', 'nan', '', '1e-300']
    spreads = ['1e29', '1e308', 'inf', 'nan', '', '-1', '0']
    rows = [
        f'{10**18 - 1 - 999 * i},eval,{score},{spread},{spread}'
        for i, (score, spread) in enumerate(itertools.product(scores, spreads))
    ]
    curve = curves.read(write(tmp_path, *rows), 'eval')
    assert set(curve.scores) == {1e29, -1e29, 1e-300}
    assert np.nanmax(np.abs(curve.deviations)) == 1e29
    assert (np.diff(curve.steps) > 0).all() and np.isfinite(curve.seconds).all()
    assert curves.read(write(tmp_path), 'eval').steps.shape == (0,)


@pytest.mark.parametrize(
    'count, expected', [(1, [1, 3, 5, 7]), (2, [1, 2, 4, 6]), (9, [1, 2, 3, 4])]
)
def test_moving_means_look_back_only(count, expected):
    scores = np.array([1.0, 3, 5, 7])
    assert curves.smooth(scores, count).tolist() == expected


def test_grid_is_where_all_curves_are():
    first, second = np.array([10.0, 20, 30, 40]), np.array([15.0, 20, 25])
    grid = curves.common_grid([first, second])
    assert grid.tolist() == [15, 20, 25]
    assert not len(curves.common_grid([first, second + 100]))
    many = curves.common_grid([np.arange(1000.0), np.arange(7.0, 900)], 100)
    assert (len(many), many[0], many[-1]) == (100, 7, 899)


def test_time_of_several_runs_is_their_mean():
    nothing = np.zeros(2)
    quick, slow = [
        curves.Curve(np.array([0.0, 10]), np.array(times), nothing, nothing)
        for times in ([0.0, 10], [0.0, 30])
    ]
    assert curves.mean_seconds([quick, slow], np.array([5.0])) == 10
