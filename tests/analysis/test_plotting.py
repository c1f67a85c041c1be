"""Plots of runs whose tables are written down, looked at as pictures."""

import io
import itertools
import os
import re

import numpy as np
import pytest
from matplotlib import pyplot

import agents
from agents.analysis import drawing, plotting, tables
from agents.config import store
from agents.scripts import configs, plot
from agents.tools import errors

HEAD = 'step,phase,score,score_std,seconds\n'
BLUE, ORANGE = np.array([0, 114, 178]), np.array([213, 94, 0])


@pytest.fixture
def run(tmp_path):
    """A function that makes a run of some scores, and returns its directory."""

    def make(name, evaluation, training=(), every=10, std='', **changes):
        directory = tmp_path / 'runs' / name
        directory.mkdir(parents=True)
        store.save_config(configs.debug().copy(**changes), directory)
        rows = [
            f'{every * number},{phase},{score},{std},{number}\n'
            for phase, scores in (('eval', evaluation), ('train', training))
            for number, score in enumerate(scores, 1)
        ]
        (directory / 'progress.csv').write_text(HEAD + ''.join(rows))
        return directory

    return make


class Shelves:
    """An environment by name."""


def pixels(file, color, tolerance=1.5):
    """How many pixels of a picture have a color."""
    image = pyplot.imread(file)[..., :3] * 255
    return (abs(image - color).max(-1) < tolerance).sum()


def test_seeds_become_a_mean_with_an_interval(run, tmp_path):
    for seed, scores in enumerate([(1, 2, 3), (3, 6, 5), (5, 4, 10)]):
        run(f'cart-s{seed}', scores, seed=seed)
    made = plotting.plot(tmp_path / 'runs', tmp_path / 'curves.png')
    (summary,) = made.summaries
    assert summary[:3] == ('cart', 3, 6)
    assert 3 <= summary.low < 6 < summary.high <= 10
    assert (summary.best, summary.steps, summary.seconds) == (6, 30, 3)
    (line,) = made.figure.axes[0].lines
    assert line.get_xydata().tolist() == [[10, 3], [20, 4], [30, 6]]
    assert pixels(made.file, BLUE) > 500
    assert pixels(made.file, 0.82 * 255 + 0.18 * BLUE) > 10_000
    assert str(made).splitlines()[1].startswith('cart')
    again = plotting.plot(tmp_path / 'runs', statistic='iqm', smooth=2)
    assert again.summaries[0].score == 6  # As smoothing is but for the eye.
    last = again.figure.axes[0].lines[0].get_ydata()[-1]
    assert last == np.mean([(2 + 3) / 2, (6 + 5) / 2, (4 + 10) / 2])


def test_each_environment_has_a_panel(run, tmp_path):
    for seed, (env, lr) in enumerate(
        [('A-v1', 1e-3), ('A-v1', 1e-3), ('B-v1', 1e-4), ('B-v1', 1e-3)]
    ):
        changes = {'learning_rate': lr, 'discount': 0.9 + seed / 100}
        run(f'x-s{seed}', [seed, seed], seed=seed, env=env, **changes)
    made = plotting.plot(tmp_path / 'runs', by='learning_rate')
    assert [(s.env, s.group, s.runs, s.score) for s in made.summaries] == [
        ('A-v1', 'learning_rate=0.001', 2, 0.5),
        ('B-v1', 'learning_rate=0.0001', 1, 2),
        ('B-v1', 'learning_rate=0.001', 1, 3),
    ]
    assert str(made).splitlines()[0].split()[:2] == ['group', 'environment']
    first, second = made.figure.axes
    titles = [axes.texts[0].get_text() for axes in (first, second)]
    assert titles == ['A-v1', 'B-v1']
    (line,) = first.lines
    # The same label has the same color in both.
    assert line.get_color() == second.lines[1].get_color()
    assert line.get_color() != second.lines[0].get_color()
    # A legend names all, in colors that differ.
    other = plotting.plot(tmp_path / 'runs', by='run')
    colors = [x.get_color() for axes in other.figure.axes for x in axes.lines]
    assert len({*colors}) == 4


def test_single_lines_of_several_panels_are_named(run, tmp_path):
    for name, env in (('left-0', 'A-v1'), ('right-0', 'B-v1')):
        run(name, [1, 2], env=env)
    figure = plotting.plot(tmp_path / 'runs').figure
    (legend,) = figure.legends
    assert [x.get_text() for x in legend.get_texts()] == ['left', 'right']
    first, second = [axes.lines[0].get_color() for axes in figure.axes]
    assert first != second


def test_runs_of_the_same_seed_are_no_replicates(run, tmp_path):
    for name, age in (('one-0', 5), ('two-0', 9), ('other-1', 7)):
        logdir = run(name, [age], seed=int(name[-1]))
        os.utime(logdir / 'progress.csv', (age, age))
    made = plotting.plot(tmp_path / 'runs')
    assert made.summaries[0][1:3] == (2, 8)
    (note,) = made.notes
    assert note.startswith('2 runs of two have the same settings and seed 0; ')
    assert 'newest counts, two-0' in note
    assert len(plotting.plot(tmp_path / 'runs', by='run').summaries) == 3


def test_any_column_is_drawn_and_heads_the_table(run, tmp_path):
    for name, lr in (('easy-0', 1e-3), ('hard-0', 1e-4)):
        logdir = run(name, [1, 2], [3, 4], learning_rate=lr)
        rows = (logdir / 'progress.csv').read_text().splitlines()
        rows[0] += ',kl'
        rows[1:] = [f'{row},{"" if "eval" in row else lr}' for row in rows[1:]]
        (logdir / 'progress.csv').write_text('\n'.join([*rows, '']))
    made = plotting.plot(tmp_path / 'runs', y='kl')
    # Of training, as evaluations have none; named after the runs.
    found = [(each.group, each.score) for each in made.summaries]
    assert found == [('hard', 1e-4), ('easy', 1e-3)]
    assert made.figure.axes[0].get_ylabel() == 'kl'
    # The largest is the best of scores alone.
    assert str(made).split()[:5] == ['group', 'runs', 'kl', 'steps', 'time']
    assert str(made).splitlines()[1].split()[2] == '0.0001'


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_labels_follow_the_order_of_the_arguments(run, tmp_path):
    easy = run('easy-0', [1, 2], learning_rate=1e-3)
    hard = run('hard-0', [3, 4], learning_rate=1e-4)
    for paths, names in (
        ([easy, hard], ('easy', 'hard')),
        ([hard, easy], ('hard', 'easy')),
        (tmp_path / 'runs', ('easy', 'hard')),
    ):
        made = plotting.plot(paths, labels=names)
        found = {each.group: each.score for each in made.summaries}
        assert found == {'easy': 2, 'hard': 4}
        assert [note.split(':')[0] for note in made.notes] == [*names]
        assert made.notes[0].endswith(f'/{names[0]}-0')
    assert {'easy', 'hard'} <= {*legend_of(made.figure)}
    made = plotting.plot(easy, labels=['PPO'])  # The only line is named as well.
    assert 'PPO' in [text.get_text() for text in made.figure.axes[0].texts]


def test_runs_of_other_lengths_are_drawn_where_all_are(run, tmp_path):
    run('cart-s0', [1, 2, 3, 4], seed=0)
    run('cart-s1', [10, 20], seed=1, every=15)
    made = plotting.plot([tmp_path / 'runs'])
    line = made.figure.axes[0].lines[0].get_xydata().tolist()
    # Scores of the first are 1.5 and 3 there, of the second 10, 13⅓ and 20.
    expected = [[15, 5.75], [20, (2 + 40 / 3) / 2], [30, 11.5]]
    np.testing.assert_allclose(line, expected)
    assert made.notes == ['cart is drawn until step 30, which all 2 runs have; the longest has 40']
    assert made.summaries[0].steps == 30


def test_runs_that_share_no_steps_are_refused(run, tmp_path):
    run('cart-s0', [1], seed=0)
    run('cart-s1', [1], seed=1, every=99)
    with pytest.raises(errors.ConfigError, match='no steps in common.*--by run'):
        plotting.plot(tmp_path / 'runs')
    assert len(plotting.plot(tmp_path / 'runs', by='run').summaries) == 2


def test_runs_without_scores_are_left_out_and_told(run, tmp_path):
    run('cart-s0', [], [1, 2])
    with pytest.raises(errors.ConfigError, match='cart-s0 has no score of eval'):
        plotting.plot(tmp_path / 'runs')
    run('cart-s1', [1, 2], seed=1)
    made = plotting.plot(tmp_path / 'runs')
    assert made.summaries[0].runs == 1
    assert made.notes == ['cart-s0 has no score of evaluation yet']


def test_both_phases_of_a_run_are_lines_with_the_spread_of_one(run, tmp_path):
    pale = 0.82 * 255 + 0.18 * BLUE
    for std, least, most in (('', 0, 50), (0.5, 10_000, 10**6)):
        logdir = run(f'now-cart{std}', [2, 3], [1, 4], std=std)
        plotting.draw_run(logdir, tmp_path / 'run.png')
        assert pixels(tmp_path / 'run.png', ORANGE) > 500
        assert least <= pixels(tmp_path / 'run.png', pale) <= most


def test_dark_pictures_have_other_colors(run, tmp_path):
    logdir = run('cart-s0', [1, 2])
    file = tmp_path / 'dark.png'
    plotting.plot(logdir, file, theme='dark', axis='seconds')
    ground = np.array([13, 17, 23])
    assert pixels(file, ground) > 400_000 and not pixels(file, 255)


def test_texts_are_no_formulas_and_files_are_the_same_again(run, tmp_path):
    logdir = run('$\\frac{-<b>&$', [1, 2])
    files = [tmp_path / 'one.svg', tmp_path / 'two.svg']
    for file in files:
        plotting.plot(logdir, file, title='$\\frac{ \n<script>$')
    one, two = [file.read_text() for file in files]
    assert one == two
    assert one.startswith('<?xml') and '<script>' not in one
    png = drawing.encode(plotting.plot(logdir).figure, 'png')
    assert pyplot.imread(io.BytesIO(png)).shape == (600, 1050, 4)
    assert plotting.plot(logdir)._repr_png_() == png


def test_run_of_any_scores_is_drawn(tmp_path):
    logdir = tmp_path / '$\\frac{$'
    logdir.mkdir()
    scores = ['1e29', '-1e29', '1e308', 'inf', '-inf', 'nan', '', '1e-300']
    spreads = ['1e29', '1e308', 'inf', 'nan', '', '-1', '0', '1e-300']
    rows = [
        f'{10**18 - 1 - i},eval,{score},{spread},{spread}\n'
        for i, (score, spread) in enumerate(itertools.product(scores, spreads))
    ]
    texts = [HEAD + rows[0], 'step,phase,score\n1,eval,2\n', '', HEAD]
    for text in [*texts, HEAD + ''.join(rows)]:
        (logdir / 'progress.csv').write_text(text)
        plotting.draw_run(logdir, tmp_path / 'run.png')
    assert pyplot.imread(tmp_path / 'run.png').shape[1] == 1050


def test_table_fits_the_terminal():
    summary = tables.Summary('x' * 40, 3, 1, 0, 2, 1, 1000, 7)
    for width in (100, 70, 60, 40):
        head, row = tables.format_table([summary], width)
        assert len(head) == len(row) <= width
    assert 'time' not in head and 'score' in head


@pytest.mark.parametrize('names', [['a', '$\\frac{$'], [f'$\\g{{{i}$' for i in range(20)]])
def test_all_lines_are_named(names):
    lines = [
        drawing.Line(name, *np.ones((4, 2)), color=number) for number, name in enumerate(names)
    ]
    figure = drawing.draw({'': lines})
    assert drawing.encode(figure, 'png')
    assert {*names} == {*legend_of(figure)}
    looks = {
        (line.get_color(), line.get_linestyle(), str(line._dash_pattern))
        for line in figure.axes[0].lines
        if line.get_linewidth() > 1.6
    }
    assert len(looks) >= len(names)


@pytest.mark.parametrize(
    'value, expected',
    [
        (0, '0'),
        (-250, '−250'),
        (999_999.9, '1M'),
        (200_000, '200k'),
        (1_500_000, '1.5M'),
        (0.25, '0.25'),
        (3e20, '3e+20'),
    ],
)
def test_numbers_are_short(value, expected):
    assert drawing.short_number(value) == expected


def test_command_prints_a_table_and_draws(run, tmp_path, monkeypatch, capsys):
    run('cart-s0', [1, -1234.5], seed=0)
    run('cart-s1', [1, -1234.5], seed=1)
    monkeypatch.chdir(tmp_path)
    assert plot.main(['runs']) == 0
    head, row, last = capsys.readouterr().out.splitlines()
    assert re.split('  +', head) == list(tables.HEAD)
    assert row.split() == [
        *['cart', '2', '-1,234.5', '-1,234.5', 'to', '-1,234.5'],
        *['1.00', '20', '0:02'],
    ]
    assert last.split() == ['plot', 'curves.png']
    assert plot.main(['runs', '--quiet', '--outfile=curves.svg']) == 0
    assert capsys.readouterr() == ('', '')
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ['curves.png', 'curves.svg', 'runs']


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['missing'], 'Cannot look for runs in missing'),
        (['runs', '--outfile=x.jpg'], 'must end with .png or .svg'),
        (['runs', '--smooth=0'], 'smooth must be at least 1, got 0'),
        (['runs', '--y=scor'], "no column 'scor'; did you mean 'score'?"),
        (['runs', '--labels=A,B'], 'one for each of cart, got 2: A, B'),
        (['runs', '--by=clip'], "no setting 'clip'"),
        (['runs', '--outfile=no/where.png'], 'Cannot write to no/where.png'),
    ],
)
def test_mistakes_are_a_line(run, tmp_path, monkeypatch, capsys, arguments, message):
    run('cart-s0', [1, 2])
    monkeypatch.chdir(tmp_path)
    assert plot.main(arguments) == 1
    problems = capsys.readouterr().err
    assert re.fullmatch(r'error: [^\n]+\n', problems) and message in problems


def test_plot_is_public():
    assert agents.plot is plotting.plot


def test_settings_of_strangers_may_be_of_any_kind(tmp_path):
    for name, value in (('a', '[1]'), ('b', '{x: 1}'), ('c', '.nan')):
        directory = tmp_path / name
        directory.mkdir()
        (directory / 'progress.csv').write_text(f'{HEAD}1,eval,2,1,1\n')
        (directory / 'config.yaml').write_text(f'env: {value}\nseed: {value}')
    for by in ('config', 'seed', 'env', 'run'):
        assert len(plotting.plot(tmp_path, by=by).summaries) == 3
    # One for each environment.
    assert len(plotting.plot(tmp_path, by='algorithm').summaries) == 3


def test_points_that_nobody_would_see_are_not_drawn():
    many = np.arange(10 * drawing.MOST_POINTS, dtype=float)
    line = drawing.Line('', many, many, many, many)
    drawn = drawing.draw({'': [line]}).axes[0].lines[0].get_xdata()
    assert len(drawn) == drawing.MOST_POINTS
    assert (drawn[0], drawn[-1]) == (many[0], many[-1])


def test_title_is_no_text_of_a_file(run, tmp_path):
    envs = [run(name, [1, 2], env=Shelves) for name in ('first', 'second')]
    plotting.plot(envs, tmp_path / 'a.svg', by='run')
    text = (tmp_path / 'a.svg').read_text()
    assert 'test_plotting.Shelves' in text and 'function' not in text


def test_too_many_environments_are_refused():
    panels = {f'{number}': [] for number in range(drawing.MOST_PANELS + 1)}
    with pytest.raises(errors.ConfigError, match='at most 40 environments, got 41'):
        drawing.draw(panels)


def test_column_without_values_is_refused(run):
    directory = run('easy', [1, 2])
    with pytest.raises(errors.ConfigError, match='score_std has no values'):
        plotting.plot(directory, y='score_std')
