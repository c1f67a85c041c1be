"""What several tests of environments use."""

import threading
import time

import numpy as np
import pytest

from agents.tools.batch.batch_env import BatchEnv
from agents.tools.workers.external_process import ExternalProcess


@pytest.fixture
def combine(nothing_left):
    """Makes batches that are closed at the end, and leave nothing."""
    made = []

    def combine(envs, timeout=20.0, **kwargs):
        made.append(BatchEnv(envs, timeout=timeout, **kwargs))
        return made[-1]

    yield combine
    for batch in made:
        batch.close()


@pytest.fixture
def in_workers():
    """A function that divides environments among processes."""

    def divide(constructors, workers, seeds=None):
        seeds = seeds or [None] * len(constructors)
        return [
            ExternalProcess(
                [constructors[index] for index in indices],
                seeds=[seeds[index] for index in indices],
                first=int(indices[0]),
                timeout=20.0,
            )
            for indices in np.array_split(np.arange(len(constructors)), workers)
        ]

    return divide


@pytest.fixture
def when_exists():
    """A function that has another one called once a file exists."""
    threads = []

    def start(path, callback):
        def wait():
            while not path.exists():
                time.sleep(1e-3)
            callback()

        threads.append(threading.Thread(target=wait, daemon=True))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
