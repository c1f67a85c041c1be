"""Runs that begin from what another one has learnt."""

import json
import re
import shutil

import numpy as np
import pytest

from agents.config import store
from agents.scripts import configs
from agents.scripts import train as train_command
from agents.tools import errors
from agents.training import beginning
from agents.training.session import Session
from agents.training.train import train
from tests.training.test_session import listener

NORMALIZER = 'policy/normalizer/observ'


@pytest.fixture(scope='module')
def source(train_once):
    """A run, which others begin from and nobody changes."""
    return train_once('source', configs.ppo(**SMALL))


SMALL = {
    'max_length': 10,
    'num_agents': 2,
    'update_every': 5,
    'steps': 20,
    'batch_size': 5,
    'update_epochs': 1,
    'eval_every': 10,
    'eval_episodes': 2,
    'policy_layers': [4],
    'value_layers': [4],
}


class Begun(Exception):
    """Raised to look at a training as it begins."""


@pytest.fixture
def begin(eagerly, monkeypatch):
    """A function that begins a run; returns its variables and what is told."""

    def function(config, logdir=None, begin_from=None):
        if begin_from is not None:
            config = config.copy(begin_from=str(begin_from))
        reporter, told = listener()
        seen = {}
        take = beginning.take

        def remember(source, graph, *rest):
            take(source, graph, *rest)
            seen.update({n: v.numpy() for n, v in graph.variables.items()})
            raise Begun

        with monkeypatch.context() as patch:
            patch.setattr(beginning, 'take', remember)
            with pytest.raises(Begun):
                list(Session(config, logdir, env_processes=False, reporter=reporter).scores())
        return seen, told

    return function


def test_weights_and_statistics_are_taken_and_the_rest_begins_anew(source, tiny, begin, checkpoint):
    # Another number of agents, of steps, another length and schedule.
    config = tiny(**{**SMALL, 'num_agents': 4, 'steps': 80, 'max_length': 7})
    seen, told = begin(config, begin_from=source)
    before = checkpoint(source)
    taken = {
        *(f'policy/network/{n}' for n in KINDS),
        *(f'algo/value/network/{n}' for n in KINDS),
        *(f'{NORMALIZER}/{n}' for n in STATISTICS),
        *(f'algo/reward_normalizer/statistics/{n}' for n in STATISTICS),
    }
    for name in taken:
        np.testing.assert_array_equal(seen[name], before[name], name)
    # Of the rest, all that a training changes is as at the beginning.
    changing = 'optimizer/(mean|square|step)|rollouts|running|past'
    for name in before.keys() - taken:
        if re.search(changing, name):
            assert np.any(before[name]) and np.max(seen[name]) in (0, 1e30)
    assert told[-2:] == [
        f'begin from {source} at step 20: policy, statistics of observations, '
        'value, statistics of rewards',
        ' optimizer, schedule and step begin anew',
    ]


KINDS = '0-kernel', '1-bias', '2-kernel', '3-bias'
STATISTICS = 'mean', 'squares', 'count'


@pytest.mark.parametrize(
    'changes, lacking',
    [
        ({'algorithm': 'trpo'}, ''),
        ({'algorithm': 'acktr'}, ''),
        ({'shared_encoder': True}, ''),
        ({'normalize_reward': False}, 'value, statistics of rewards, '),
    ],
)
def test_other_algorithms_begin_with_what_they_have_as_well(
    source, begin, checkpoint, changes, lacking
):
    changes = dict(changes)
    define = getattr(configs, changes.pop('algorithm', 'ppo'))
    settings = {**SMALL, **changes}
    if define is not configs.ppo:
        del settings['batch_size'], settings['update_epochs']
        settings['value_batch_size'] = 5
    seen, told = begin(define(**settings), begin_from=f'{source}@20')
    before = checkpoint(source)
    for name in KINDS:
        np.testing.assert_array_equal(
            seen[f'policy/network/{name}'], before[f'policy/network/{name}']
        )
        value = seen.get(f'algo/value/network/{name}')
        same = np.array_equal(value, before[f'algo/value/network/{name}'])
        assert same == (not lacking) or not np.any(value)
    assert told[-1] == f' {lacking}optimizer, schedule and step begin anew'


@pytest.mark.slow
def test_what_it_began_from_is_written_down_and_not_needed_again(
    source, tiny, tmp_path, eagerly, checkpoint
):
    copy = shutil.copytree(source, tmp_path / 'other@2')
    for step, score in ((10, 7.0), (20, 5.0)):
        manifest = copy / 'checkpoints' / f'{step:012d}' / 'manifest.json'
        told = {**json.loads(manifest.read_text()), 'score': score}
        manifest.write_text(json.dumps(told))
    config, final = tiny(**SMALL), []
    for name in 'ab':
        run = tmp_path / name
        train(config, run, False, begin_from=f'{copy}@best').run()
        assert store.load_config(run).begin_from == f'{copy}@10'
        final.append(checkpoint(run))
    for name in final[0]:
        np.testing.assert_array_equal(final[0][name], final[1][name], name)
    count = f'{NORMALIZER}/count'
    assert final[0][count] == 10 + 20
    with pytest.raises(errors.ConfigError, match='has learnt already'):
        train(config, copy, False, begin_from=source).run()
    shutil.rmtree(copy)
    # As the setting says, or the same that was asked for, or nothing.
    longer = config.copy(steps=40)
    train(longer, tmp_path / 'a', False, begin_from=f'{copy}@best').run()
    assert checkpoint(tmp_path / 'a')[count] == 50
    train(longer, tmp_path / 'b', env_processes=False).run()
    assert store.load_config(tmp_path / 'b').begin_from == f'{copy}@10'


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'policy_layers': [5]}, r'was trained with policy_layers=\[4\].*=\[5\]'),
        ({'value_layers': [4, 4]}, 'with value_layers=.* cannot begin from it'),
        ({'activation': 'relu'}, 'with activation=tanh.*activation=relu'),
        ({'normalize_observ': False}, 'with normalize_observ=True'),
        ({'network': 'recurrent'}, 'trained with network=feed_forward'),
        ({'env': 'Acrobot-v1'}, 'observations of .* Leave env and env_kwargs'),
        ({'begin_from': '{}@15'}, 'no checkpoint 15 in .* there are 10, 20'),
        ({'begin_from': '{}/checkpoints'}, 'Expected the directory of a run'),
    ],
)
def test_what_does_not_fit_is_told_by_its_setting(
    source, tiny, tmp_path, eagerly, changes, message
):
    config = tiny(**{**SMALL, 'begin_from': '{}', **changes})
    config = config.copy(begin_from=config.begin_from.format(source))
    with pytest.raises(errors.ConfigError, match=message) as info:
        train(config, tmp_path / 'run', env_processes=False).run()
    assert 'kernel' not in str(info.value)
    assert not (tmp_path / 'run').exists()


def test_damage_falls_back_and_says_so(source, tiny, tmp_path, begin):
    copy = shutil.copytree(source, tmp_path / 'copy')
    file = copy / 'checkpoints' / f'{20:012d}' / 'variables.safetensors'
    file.write_text('')
    seen, told = begin(tiny(**SMALL), begin_from=copy)
    assert seen[f'{NORMALIZER}/count'] == 10
    (said,) = [line for line in told if 'not whole' in line]
    assert said.endswith('Falling back to the one before.')
    assert told[-2].startswith(f'begin from {copy} at step 10: policy')


@pytest.mark.parametrize(
    'text, found',
    [
        ('runs/a', ('runs/a', None)),
        ('runs/a@best', ('runs/a', 'best')),
        ('runs/a@40000', ('runs/a', 40_000)),
        ('me@home/a', ('me@home/a', None)),
        ('a@b@7', ('a@b', 7)),
        ('@best', ('@best', None)),
    ],
)
def test_checkpoint_of_the_other_run(text, found):
    assert beginning.split(text) == found


def test_directory_that_is_called_like_a_checkpoint(tmp_path):
    (tmp_path / 'a@7').mkdir()
    assert beginning.split(f'{tmp_path}/a@7') == (f'{tmp_path}/a@7', None)


def test_option_of_the_command_is_the_setting(capsys):
    # Not even where YAML would take it for something else.
    code = train_command.main(['--config=debug', '--from=a: b #c@best', '--settings'])
    assert code == 0
    assert 'a: b #c@best' in capsys.readouterr().out
