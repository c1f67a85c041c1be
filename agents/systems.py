"""Supported operating systems, and the start of commands."""

import os
import signal


def require_supported() -> None:
    """Refuse a system without the features that workers and run directories need.

    Imported first, so that the message does not depend on which module of Python is missing.
    """
    if os.name != 'posix':
        raise ImportError(
            'agents runs on Linux and macOS, not on Windows itself. There, run '
            'it in the Windows Subsystem for Linux: install that by `wsl '
            '--install`, and install and start agents in its terminal. '
            'Policies that were exported run anywhere.'
        )


def end_silently() -> None:
    """Let Ctrl-C end this process without a traceback during imports.

    To be called by commands before other imports.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
