"""Where compiled programs are kept from one run to the next.

Compiling takes longer than tracing and importing together, and the same
configuration compiles to the same program. The directory belongs to the user
and is named after all that a program depends on, so that another processor or
version never loads it. `AGENTS_CACHE` names another place, or is empty for
none.
"""

import contextlib
import hashlib
import os
import pathlib
import platform
import shutil
from importlib import metadata

FREE_BYTES = 500_000_000
MAX_PROGRAMS = 200


def flags() -> str:
    """The flags of TensorFlow that make it use the cache, if there is one."""
    directory = _directory()
    if directory is None or not _is_usable(directory):
        return ''
    _prune(directory)
    return (
        f'--tf_xla_persistent_cache_directory={directory} '
        '--tf_xla_persistent_cache_device_types=CPU,XLA_CPU_JIT'
    )


def clear() -> pathlib.Path | None:
    """Forget all programs of this processor and version."""
    directory = _directory()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
        _is_usable(directory)  # It is in use and has to exist.
    return directory


def _directory() -> pathlib.Path | None:
    chosen = os.environ.get('AGENTS_CACHE')
    if chosen == '':
        return None
    if chosen is None:
        home = pathlib.Path('~').expanduser()
        base = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or home / '.cache')
        chosen = str(base / 'agents')
    versions = [metadata.version('tensorflow'), metadata.version('keras')]
    parts = [_processor(), *versions, os.environ.get('XLA_FLAGS', '')]
    name = hashlib.sha256('\n'.join(parts).encode()).hexdigest()[:16]
    return pathlib.Path(chosen).absolute() / name


def _processor() -> str:
    """The model of the processor and what it can do."""
    with contextlib.suppress(OSError):
        lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
        names = 'model name', 'flags', 'Features', 'CPU part'
        return '\n'.join(sorted({x for x in lines if x.startswith(names)}))
    return f'{platform.machine()} {platform.processor()}'


def _is_usable(directory: pathlib.Path) -> bool:
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        own = directory.stat().st_uid == os.getuid()
        free = shutil.disk_usage(directory).free
        return own and os.access(directory, os.W_OK) and free > FREE_BYTES
    return False


def _prune(directory: pathlib.Path) -> None:
    """Remove what has not been made for the longest time, if there is much."""
    with contextlib.suppress(OSError):
        programs = sorted(directory.iterdir(), key=lambda p: p.stat().st_mtime)
        for program in programs[:-MAX_PROGRAMS]:
            program.unlink()
