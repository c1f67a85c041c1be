"""What ranks tell each other outside of graphs, and how they end."""

import json
import sys

import pytest

from agents.tools import errors, world

SPEAK = """
import json, pathlib
from agents.tools import world

ranks = world.connect()
found = [
    ranks.rank,
    ranks.size,
    ranks.share({'from': [ranks.rank, None, 0.5], 'ä': 'x' * ranks.rank}),
    ranks.gather('y' * 3 * ranks.rank),
    ranks.count_here(),
]
pathlib.Path(str(ranks.rank)).write_text(json.dumps(found))
"""


@pytest.fixture
def forget(monkeypatch):
    """Forgets by which launcher the tests were started, and what was found."""
    for name in world.SIZES:
        monkeypatch.delenv(name, raising=False)
    world.connect.cache_clear()
    yield
    world.connect.cache_clear()


@pytest.mark.parametrize('size', [2, 3])
def test_what_ranks_tell_each_other(run_ranks, tmp_path, size):
    lines = map(json.loads, run_ranks(tmp_path, size, '-c', SPEAK))
    for rank, found in enumerate(lines):
        assert found == [
            rank,
            size,
            {'from': [0, None, 0.5], 'ä': ''},
            ['y' * 3 * other for other in range(size)],
            [rank, size],
        ]


def test_without_a_launcher_there_are_no_others(forget):
    assert world.connect() is world.ALONE
    assert world.count_ranks() == 1
    assert world.ALONE.share({'x': 1}) == {'x': 1}
    assert world.ALONE.gather(3) == [3]


def test_what_is_missing_is_named(forget, monkeypatch):
    monkeypatch.setenv('PMI_SIZE', '2')
    monkeypatch.setitem(sys.modules, 'mpi4py', None)
    with pytest.raises(errors.ConfigError, match=r'agents\[mpi\]'):
        world.connect()
