"""Which cores a process stays on, by what the system says of it."""

import pytest

from agents.tools import cpu

SHARE = """
import sys
from agents.tools import cpu
cpu.take_share(int(sys.argv[1]), int(sys.argv[2]))
print(*cpu.cores())
"""


@pytest.fixture
def share(run_python):
    """A function that finds the cores of a rank."""

    def run(rank, count):
        result = run_python('-c', SHARE, rank, count)
        return [*map(int, result.output.split())]

    return run


def test_parts_are_equal_and_have_no_core_in_common(share):
    every = cpu.cores()
    if len(every) < 2:
        pytest.skip('There is only one core.')
    first, second = share(0, 2), share(1, 2)
    assert len(first) == len(second) == len(every) // 2
    assert not {*first} & {*second}
    assert {*first, *second} <= {*every}


def test_more_ranks_than_cores_share_all_of_them(share):
    every = cpu.cores()
    assert share(0, len(every) + 1) == every
