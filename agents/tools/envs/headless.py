"""Drawing without a display."""

import ctypes.util
import os
import sys

# What MuJoCo and dm_control can draw with where there is no display: the value
# of MUJOCO_GL and the library that it needs.
BACKENDS = {'egl': 'EGL', 'osmesa': 'OSMesa'}


def prepare(rendering: bool = True) -> None:
    """Let libraries draw into memory, unless there is a display.

    Has to precede their import. What a user has set is kept. On macOS no
    variable tells of a display, and MuJoCo finds its own way.

    Args:
        rendering: Whether frames are needed. If not, no backend is chosen that
            is not installed, as importing MuJoCo would fail.
    """
    if 'DISPLAY' in os.environ or 'WAYLAND_DISPLAY' in os.environ:
        return
    if sys.platform != 'darwin' and 'MUJOCO_GL' not in os.environ:
        backend = _find_backend() or ('egl' if rendering else None)
        if backend:
            os.environ['MUJOCO_GL'] = backend
    os.environ.setdefault('SDL_VIDEODRIVER', 'dummy')
    # Or SDL complains that it finds no place for its sockets.
    os.environ.setdefault('XDG_RUNTIME_DIR', '/tmp')


def _find_backend() -> str | None:
    """The first of the backends whose library is installed."""
    for backend, library in BACKENDS.items():
        if ctypes.util.find_library(library):
            return backend
    return None
