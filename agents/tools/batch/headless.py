"""Rendering without a display."""

import contextlib
import ctypes.util
import functools
import os
import sys
from collections.abc import Iterator

# What MuJoCo and dm_control can draw with where there is no display: the value
# of MUJOCO_GL and the library that it needs.
BACKENDS = {'egl': 'EGL', 'osmesa': 'OSMesa'}

VARIABLE = 'MUJOCO_GL'


def prepare() -> None:
    """Let libraries render into memory if there is no display.

    Must be called before their import. Settings of the user are kept. On macOS no variable tells
    whether there is a display, and MuJoCo finds its own way.
    """
    if _has_display():
        return
    if sys.platform != 'darwin':
        os.environ.setdefault(VARIABLE, _find_backend() or 'egl')
    os.environ.setdefault('SDL_VIDEODRIVER', 'dummy')
    # Or SDL complains that it finds no place for its sockets.
    os.environ.setdefault('XDG_RUNTIME_DIR', '/tmp')


def prepare_workers() -> None:
    """Choose the backend for workers that import other packages."""
    if not _has_display() and sys.platform != 'darwin':
        if backend := _find_backend():
            for_workers[VARIABLE] = backend


# Variables of workers that are started from now on.
for_workers: dict[str, str] = {}


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Keep imported packages from rendering in this process.

    dm_control tries all backends when imported, and EGL crashes in a process with TensorFlow.
    """
    hidden = VARIABLE not in os.environ and not _has_display()
    if hidden and sys.platform != 'darwin':
        os.environ[VARIABLE] = 'off'
    try:
        yield
    finally:
        if hidden:
            os.environ.pop(VARIABLE, None)


def _has_display() -> bool:
    return 'DISPLAY' in os.environ or 'WAYLAND_DISPLAY' in os.environ


@functools.cache
def _find_backend() -> str | None:
    """Return the first backend whose library is installed, or None."""
    for backend, library in BACKENDS.items():
        if ctypes.util.find_library(library):
            return backend
    return None
