"""Runs that are found in directories and put together by their settings."""

import pathlib
import shutil

import pytest

from agents.analysis import run_groups
from agents.analysis.run_groups import Run
from agents.tools import errors

CARTPOLE = {'algorithm': 'ppo', 'env': 'CartPole-v1', 'seed': 0, 'steps': 10}


def make(name, **changes):
    return Run(pathlib.Path(name), {**CARTPOLE, **changes})


def labels(runs, by='config'):
    return {label: [run.name for run in members] for label, members in run_groups.group(runs, by)}


def test_seeds_of_a_config_are_a_group():
    runs = [
        make('20261119T120001-cart', seed=0),
        make('20261119T120002-cart', seed=1, num_workers=2),  # Which changes no result.
        make('20261119T120003-pole', env='Pendulum-v1'),
    ]
    assert labels(runs) == {
        'cart': ['20261119T120001-cart', '20261119T120002-cart'],
        'pole': ['20261119T120003-pole'],
    }


@pytest.mark.parametrize(
    'name, config',
    [
        ('20261119T120001-Ant-v5-ppo', 'Ant-v5-ppo'),
        ('20261119T120001-ant-seed3', 'ant'),
        ('ant_s3', 'ant'),
        ('lr=0.1-seed=12', 'lr=0.1'),
        ('classes3', 'classes3'),
        ('seed3', 'seed3'),
        ('ant', 'ant'),
    ],
)
def test_names_tell_the_config(name, config):
    assert make(name).config == config


def test_groups_of_a_config_are_called_by_what_differs():
    runs = [
        make('20261119T120001-cart', steps=20_000, seed=1),
        make('20261119T120002-cart', seed=2),
        make('20261119T120003-pole', env='Pendulum-v1'),
    ]
    assert list(labels(runs)) == ['steps=10', 'steps=20_000', 'pole']
    # The name of the config says nothing where all have it.
    assert list(labels(runs[:2])) == ['steps=10', 'steps=20_000']


def test_runs_of_equal_settings_and_other_configs_are_a_group():
    runs = [make('20261119T120001-cart'), make('mine-seed=2', seed=1)]
    assert labels(runs) == {'ppo on CartPole-v1': ['20261119T120001-cart', 'mine-seed=2']}


def test_groups_can_be_made_by_other_things():
    runs = [
        make('a-cart', seed=0, clip_range=0.2),
        make('b-cart', seed=0, clip_range=0.1),
        make('c-cart', seed=1, clip_range=0.1),
    ]
    names = ['a-cart', 'b-cart', 'c-cart']
    assert labels(runs, 'run') == {name: [name] for name in names}
    assert labels(runs, 'seed') == {'seed=0': names[:2], 'seed=1': names[2:]}
    by_range = {'clip_range=0.1': names[1:], 'clip_range=0.2': names[:1]}
    assert labels(runs, 'clip_range') == by_range
    with pytest.raises(errors.ConfigError, match="did you mean 'clip_range'"):
        labels(runs, 'clip_rang')


def test_labels_are_short_printable_and_different():
    runs = [make(f'a\n{"x" * 100}{number}{"y" * 100}') for number in '123']
    found = list(labels(runs, 'run'))
    assert len({*found}) == 3
    assert all(len(label) < 70 and label.isprintable() for label in found)


def test_runs_are_found_at_any_place_but_not_behind_links(tmp_path):
    for name in ('b/c/run', 'a-run', 'elsewhere'):
        (tmp_path / 'all' / name).mkdir(parents=True)
        (tmp_path / 'all' / name / 'progress.csv').touch()
    shutil.move(tmp_path / 'all/elsewhere', tmp_path)
    (tmp_path / 'all/link').symlink_to(tmp_path / 'elsewhere')
    (tmp_path / 'all/empty').mkdir()
    found = run_groups.find([tmp_path / 'all', tmp_path / 'all/b'])
    assert [run.name for run in found] == ['a-run', 'run']
    assert found[0].settings == {}
    # The user may well name a link.
    (run,) = run_groups.find([tmp_path / 'all/link'])
    assert run.name == 'elsewhere'


@pytest.mark.parametrize(
    'name, message', [('missing', 'Cannot look for runs in .*missing: No'), ('', 'no run with')]
)
def test_places_without_runs_are_named(tmp_path, name, message):
    with pytest.raises(errors.ConfigError, match=message):
        run_groups.find([tmp_path / name])


def test_too_many_runs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(run_groups, 'MOST_RUNS', 1)
    for name in ('one', 'other'):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'progress.csv').write_text('step,phase,score\n1,eval,2\n')
    with pytest.raises(errors.ConfigError, match='2 runs in there, where at most 1 can be'):
        run_groups.find([tmp_path])
