"""The operating systems that the package runs on, and how commands start."""

import os
import signal


def require_supported() -> None:
    """Refuse a system without what workers and files of runs build on.

    This is the first thing that is imported, so that it is said in words
    rather than by whichever module of Python is missing there.
    """
    if os.name != 'posix':
        raise ImportError(
            'agents runs on Linux and macOS, not on Windows itself. There, run '
            'it in the Windows Subsystem for Linux: install that by `wsl '
            '--install`, and install and start agents in its terminal. '
            'Policies that were exported run anywhere.'
        )


def end_silently() -> None:
    """Let Ctrl-C end this process without a traceback while it imports.

    To be called by commands before they import anything else.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
