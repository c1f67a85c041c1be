"""The policies that are shipped as trained are what their page says."""

import pathlib
import re

import pytest

import agents
from agents import configs

ROOT = pathlib.Path(__file__).parent.parent
ZOO = ROOT / 'zoo'
ROW = re.compile(
    r'^\| `(?P<name>\w+)` \| (?P<env>\S+) \| (?P<step>[\d,]+) steps \| .* '
    r'\| (?P<mean>[-\d.]+) ± (?P<std>[\d.]+) \|$',
    re.MULTILINE,
)
ROWS = {row['name']: row for row in ROW.finditer((ROOT / 'docs' / 'zoo.md').read_text())}


def test_page_has_all_that_there_are():
    assert {*ROWS} == {path.name for path in ZOO.iterdir()}
    for name, row in ROWS.items():
        assert getattr(configs, name)().env == row['env']


NATIVE = [name for name in ROWS if name.endswith('_native')]
SOME = 'memory_native', 'hopper', 'ant'


@pytest.mark.parametrize(
    'name', [n if n in SOME else pytest.param(n, marks=pytest.mark.slow) for n in ROWS]
)
def test_policies_are_loaded_and_act(name):
    policy = agents.load(ZOO / name)
    assert f'{policy.checkpoint:,}' == ROWS[name]['step']
    observ = policy.observation_space.sample()
    assert policy.action_space.contains(policy(observ))


@pytest.mark.parametrize(
    'name', [NATIVE[0], *(pytest.param(n, marks=pytest.mark.slow) for n in NATIVE[1:])]
)
def test_scores_are_those_of_the_page(name):
    """Within what other episodes may score."""
    row, episodes = ROWS[name], 20
    found = agents.evaluate(ZOO / name, num_episodes=episodes)
    spread = max(float(row['std']), 1e-3) / episodes**0.5
    assert abs(found.mean - float(row['mean'])) < 5 * spread + 0.05
