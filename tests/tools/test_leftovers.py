"""What is left of ranks that were killed."""

import mmap
import os
import time

from agents.tools import leftovers


def test_what_nobody_uses_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, 'MEMORY', tmp_path)
    names = 'mpich_shm_1_0', 'mpich_shar_tmpAbc', 'used', 'mpich_shm_used'
    for name in names:
        (tmp_path / name).write_bytes(b'x' * 4096)
    with (tmp_path / 'mpich_shm_used').open('r+b') as file:
        memory = mmap.mmap(file.fileno(), 4096)
    leftovers.remove_unused(time.time() + 60)
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    leftovers.remove_unused(time.time() - 60)
    assert sorted(os.listdir(tmp_path)) == ['mpich_shm_used', 'used']
    memory.close()
