"""Silence for converters that print."""

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Drop all output within this context, also that of C++.

    Errors are raised.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    with tempfile.TemporaryFile() as file, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        for number, _ in kept:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
