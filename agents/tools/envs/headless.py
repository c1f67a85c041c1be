"""Drawing without a display."""

import os
import sys


def prepare() -> None:
    """Let libraries draw into memory, unless there is a display.

    Has to precede their import. What a user has set is kept. On macOS no
    variable tells of a display, and MuJoCo finds its own way.
    """
    if 'DISPLAY' not in os.environ and 'WAYLAND_DISPLAY' not in os.environ:
        if sys.platform != 'darwin':
            os.environ.setdefault('MUJOCO_GL', 'egl')
        os.environ.setdefault('SDL_VIDEODRIVER', 'dummy')
        # Or SDL complains that it finds no place for its sockets.
        os.environ.setdefault('XDG_RUNTIME_DIR', '/tmp')
