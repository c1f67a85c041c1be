"""Settings as TensorBoard reads them, beside the scores they have led to."""

import html
import re

import gymnasium as gym
import pytest
from tensorboard import plugin_util
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

import agents
from agents.config import render
from agents.scripts import configs


def make():
    return gym.make('CartPole-v1')


def test_values_that_are_plain_are_hyperparameters():
    config = configs.ppo(env=make, env_kwargs={'a': [1]}, policy_layers=[8, 4], kl_stop=0.5)
    found = render.as_hyperparameters(config)
    assert found['policy_layers'] == '[8, 4]' and found['kl_stop'] == 0.5
    assert found['env_kwargs'] == '{a: [1]}'
    assert found['normalize_observ'] is True and found['steps'] == 1_000_000
    absent = {'env', 'value_clip', 'log_info', 'callbacks'}
    assert not absent & {*found}
    assert {*found} <= {*config} and len(found) > 40


def test_settings_are_a_table_that_shows_them_as_they_are():
    config = configs.ppo(env_kwargs={'a|b': '<b>*x*</b>\n`y`'}, env=make)
    text = render.as_markdown(config)
    assert len(text.splitlines()) == 2 + len(config)
    page = plugin_util.markdown_to_safe_html(text)
    shown = html.unescape(re.sub(r'</?(table|thead|tbody|tr|th|td)>', '', page))
    assert '{a|b: "<b>*x*</b>\\n`y`"}' in shown
    assert '[64, 64]' in shown and 'make' in shown


@pytest.fixture
def tensorboard(tmp_path):
    """A function that asks TensorBoard for what the HPARAMS tab shows."""

    def ask():
        multiplexer = plugin_event_multiplexer.EventMultiplexer()
        multiplexer.AddRunsFromDirectory(str(tmp_path))
        multiplexer.Reload()
        provider = data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path))
        handler = list_session_groups.Handler(
            RequestContext(),
            backend_context.Context(base_plugin.TBContext(data_provider=provider)),
            'id',
            api_pb2.ListSessionGroupsRequest(
                slice_size=100, allowed_statuses=[api_pb2.STATUS_UNKNOWN]
            ),
        )
        return handler.run().session_groups

    return ask


@pytest.mark.slow
def test_runs_are_compared_by_their_scores(tiny, tmp_path, eagerly, tensorboard):
    scores = {}
    for rate in (0.5, 0.25):
        run = tmp_path / f'{rate}'
        config = tiny(learning_rate=rate)
        if rate == 0.5:  # This one is resumed.
            half = config.copy(steps=20)
            agents.train(half, run, env_processes=False).run()
        scores[rate] = agents.train(config, run, env_processes=False).run()
    groups = tensorboard()
    assert len(groups) == 2
    for group in groups:
        rate = group.hparams['learning_rate'].number_value
        values = {
            value.name.tag: (value.value, value.training_step) for value in group.metric_values
        }
        assert values['eval/score'] == (pytest.approx(scores.pop(rate)), 40)
        assert group.name == f'{tmp_path.name}/{rate}'
        assert min(values) == 'eval/score'  # Columns are in that order.
        assert group.hparams['env'].string_value == 'CartPole-v1'
        assert group.hparams['normalize_reward'].bool_value is True
