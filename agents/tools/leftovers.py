"""Removal of shared memory that MPICH leaves behind when its ranks are killed."""

import contextlib
import pathlib

MEMORY = pathlib.Path('/dev/shm')
NAMES = 'mpich_sh*'  # Also those it has while ranks find each other.


def remove_names() -> None:
    """Remove the names of what this process has found there.

    It is used by those who have found it, and gone with the last of them.
    """
    used = _read_maps('self')
    for path in MEMORY.glob(NAMES):
        if str(path) in used:
            path.unlink(missing_ok=True)


def remove_unused(began: float) -> None:
    """Remove what was made after some time and belongs to nobody any more."""
    # Listed first, as what is made meanwhile may not have found its users yet.
    found = [*MEMORY.glob(NAMES)]
    used = ''.join(_read_maps(path.name) for path in pathlib.Path('/proc').glob('[0-9]*'))
    for path in found:
        with contextlib.suppress(OSError):
            if path.stat().st_ctime >= began - 1 and str(path) not in used:
                path.unlink()


def _read_maps(process: str) -> str:
    with contextlib.suppress(OSError):
        return pathlib.Path(f'/proc/{process}/maps').read_text()
    return ''
