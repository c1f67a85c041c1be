"""Environments of EnvPool."""

import pytest

from agents.tools import cpu
from agents.tools.vector import env_pool


@pytest.mark.parametrize(
    'cores, count, found',
    [
        ([0, 1], 8, {'num_threads': 2, 'thread_affinity_offset': 0}),
        ([4, 5, 6], 3, {'num_threads': 3, 'thread_affinity_offset': 4}),
        ([0, 2], 8, {'num_threads': 2}),  # A thread would get the core 1.
        ([0, 1, 2, 3], 2, {'num_threads': 2}),  # Other runs may use these two.
        ([3], 8, {'num_threads': 1}),
    ],
)
def test_threads_are_kept_on_cores_that_all_have_work(monkeypatch, cores, count, found):
    monkeypatch.setattr(cpu, 'cores', lambda: cores)
    assert env_pool._threads(count) == found
