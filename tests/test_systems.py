"""Systems that lack what Linux has."""

import ctypes.util
import os
import sys

import pytest

from agents.tools.batch import headless

ON_WINDOWS = 'import os; os.name = "nt"; import agents'

# Macs lack these, and places such as /proc.
LIKE_A_MAC = """
import builtins, ctypes, fcntl, io, os, signal, sys, time

for module, names in {
    os: '''copy_file_range eventfd memfd_create pidfd_open posix_fadvise
        posix_fallocate sched_getaffinity sched_setaffinity sched_yield waitid
        O_DIRECT O_PATH O_TMPFILE P_PIDFD''',
    fcntl: 'F_SETSIG F_GETSIG F_ADD_SEALS F_OFD_SETLK',
    signal: 'SIGRTMIN SIGRTMAX pidfd_send_signal sigtimedwait',
    time: 'CLOCK_BOOTTIME',
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

def hiding(function):
    def call(path='.', *args, **kwargs):
        if isinstance(path, (str, os.PathLike)):
            parts = os.fspath(path).split(os.sep)
            if parts[1:2] == ['proc'] or parts[1:3] == ['dev', 'shm']:
                raise FileNotFoundError(2, 'Not on a Mac', path)
        return function(path, *args, **kwargs)
    return call

builtins.open = io.open = hiding(open)
for name in 'listdir', 'lstat', 'open', 'scandir', 'stat':
    setattr(os, name, hiding(getattr(os, name)))

load = ctypes.CDLL
ctypes.CDLL = lambda name, *args, **kwargs: (
    object() if name is None else load(name, *args, **kwargs))
sys.looked_like_a_mac = True
"""

CONFIG = """
import sys
import gymnasium as gym
from agents import configs

def make():
    assert sys.looked_like_a_mac  # Workers too.
    return gym.make('CartPole-v1')

def config():
    return configs.debug().copy(env=make, steps=1000)
"""


def test_windows_is_refused_with_what_to_do(run_python):
    result = run_python('-c', ON_WINDOWS)
    last = result.problems.splitlines()[-1]
    assert result.code and last.startswith('ImportError: agents runs on')
    assert 'Windows Subsystem for Linux' in last


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason='pathlib takes what hides for a method')
def test_run_as_on_a_mac(tmp_path, nothing_left, run_python):
    (tmp_path / 'sitecustomize.py').write_text(LIKE_A_MAC)
    (tmp_path / 'mine.py').write_text(CONFIG)
    others = os.environ.get('PYTHONPATH', '').split(os.pathsep)
    places = os.pathsep.join(filter(None, [str(tmp_path), *others]))
    result = run_python(
        *('-m', 'agents.scripts.train', '--config=mine.py:config'),
        *('--env_processes', f'--logdir={tmp_path}'),
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': places},
    )
    assert (result.code, result.problems) == (0, '')
    assert 'step 1,000 (100%)' in result.output


@pytest.mark.parametrize(
    'system, installed, drawn_by, in_workers',
    [
        ('linux', ['EGL', 'OSMesa'], 'egl', 'egl'),
        ('linux', ['OSMesa'], 'osmesa', 'osmesa'),
        ('linux', [], 'egl', ''),
        ('darwin', [], '', ''),
    ],
)
def test_drawing_without_a_display(monkeypatch, system, installed, drawn_by, in_workers):
    def find(name):
        return name if name in installed else None

    monkeypatch.setattr(sys, 'platform', system)
    monkeypatch.setattr(os, 'environ', {})
    monkeypatch.setattr(headless, 'for_workers', {})
    monkeypatch.setattr(ctypes.util, 'find_library', find)
    headless._find_backend.cache_clear()
    headless.prepare_workers()
    assert headless.for_workers.get('MUJOCO_GL', '') == in_workers
    with headless.disabled():  # It would crash beside TensorFlow.
        shown = os.environ.get('MUJOCO_GL', '')
        assert shown == ('off' if system == 'linux' else '')
    assert not os.environ
    headless.prepare()
    assert os.environ.get('MUJOCO_GL', '') == drawn_by
    assert os.environ['SDL_VIDEODRIVER'] == 'dummy'
    monkeypatch.setattr(os, 'environ', {'MUJOCO_GL': 'glfw'})
    headless.prepare()
    with headless.disabled():
        assert os.environ['MUJOCO_GL'] == 'glfw'
    headless._find_backend.cache_clear()
