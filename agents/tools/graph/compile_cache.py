"""Cache of compiled programs, kept from one run to the next.

Compiling takes longer than tracing and importing together, and the same
configuration compiles to the same program. The directory is named after
everything that a program depends on, so that another processor or version
never loads it. `AGENTS_CACHE` names another place, or is empty for none.

Programs in the cache are executed, so nobody else may be able to write them.
When anything about the cache fails, this is said once and the process goes on
without it.
"""

import contextlib
import errno
import hashlib
import os
import pathlib
import platform
import stat
import sys
import tempfile
from importlib import metadata

from agents.tools import world

# Bytes that have to be free at the start.
ROOM = 50_000_000
MAX_PROGRAMS = 200

# Names of the files that TensorFlow writes, complete or not; no others are
# removed.
PATTERN = 'xla_compile_cache__*.pb*'

# What TensorFlow says of damaged programs without naming the file.
DAMAGES = 'Serialized cache key does not match', 'Read less bytes'

# The open directory. TensorFlow reads its flags only once and is given the path
# of this descriptor, so that nobody else can put another directory in its place
# but `give_up` can.
_descriptor: int | None = None
_substitute: tempfile.TemporaryDirectory | None = None


def flags() -> str:
    """Return TensorFlow's flags that turn the cache on, if it is usable."""
    directory = _directory()
    if directory is None:
        return ''
    try:
        path = _open(directory)
    except OSError as error:
        _warn(f'{directory} is not used: {error.strerror or error}.')
        return ''
    _prune(directory, MAX_PROGRAMS)
    return (
        f'--tf_xla_persistent_cache_directory={path} '
        '--tf_xla_persistent_cache_device_types=CPU,XLA_CPU_JIT'
    )


def give_up(error: Exception) -> bool:
    """Go on without the cache if an error of TensorFlow comes from it.

    A program that could not be read or written has not run yet.

    Returns:
        Whether to repeat the call that failed.
    """
    global _descriptor, _substitute
    directory, text = _directory(), str(error).partition(' [Op:')[0]
    signs = f'/fd/{_descriptor}', str(directory), *DAMAGES
    if _descriptor is None or not any(sign in text for sign in signs):
        return False
    reason = text.rpartition('; ')[2]
    _warn(f'{directory} has been cleared and is no longer used: {reason}.')
    if directory is not None:
        _prune(directory, 0)
    with contextlib.suppress(OSError):
        memory = '/dev/shm' if os.path.isdir('/dev/shm') else None
        _substitute = tempfile.TemporaryDirectory(prefix='agents-', dir=memory)
        new = os.open(_substitute.name, os.O_RDONLY)
        os.dup2(new, _descriptor, inheritable=False)
        os.close(new)
    _descriptor = None
    return True


def _directory() -> pathlib.Path | None:
    chosen = os.environ.get('AGENTS_CACHE')
    if chosen is None:
        home = _home()
        default = f'{home}/.cache' if home else ''
        base = os.environ.get('XDG_CACHE_HOME') or default
        chosen = base and os.path.join(base, 'agents')
    if not chosen:
        return None
    versions = [metadata.version('tensorflow'), metadata.version('keras')]
    parts = [_processor(), *versions, os.environ.get('XLA_FLAGS', '')]
    name = hashlib.sha256('\n'.join(parts).encode()).hexdigest()[:16]
    return pathlib.Path(chosen).absolute() / name


def _home() -> pathlib.Path | None:
    try:
        return pathlib.Path.home().resolve()
    except RuntimeError:  # The user has neither a home nor a name.
        return None


def _processor() -> str:
    """Return the model of the processor and its features."""
    with contextlib.suppress(OSError):
        lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
        names = 'model name', 'flags', 'Features', 'CPU part'
        return '\n'.join(sorted({x for x in lines if x.startswith(names)}))
    return f'{platform.machine()} {platform.processor()}'


def _open(directory: pathlib.Path) -> pathlib.Path:
    """Make and open the directory; returns its path for TensorFlow."""
    global _descriptor
    for path in reversed([directory, *directory.parents]):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    for path in (directory, directory.parent):
        if path.is_symlink():
            raise PermissionError(errno.EPERM, f'{path} is a link')
    _require_private(directory.resolve())
    new = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, 'posix_fallocate'):  # Obeys quotas and ulimit -f.
            os.posix_fallocate(file.fileno(), 0, ROOM)
    if _descriptor is not None:
        os.close(_descriptor)
    _descriptor = new
    path = pathlib.Path(f'/proc/self/fd/{new}')
    return path if path.is_dir() else directory


def _require_private(directory: pathlib.Path) -> None:
    """Refuse a directory whose programs somebody else could replace."""
    home = _home()
    for path in (directory, *directory.parents):
        if path == home:
            break
        status = path.stat()
        own, mode = status.st_uid == os.geteuid(), status.st_mode
        if not own and (path == directory or status.st_uid != 0):
            raise PermissionError(errno.EPERM, f"{path} is another user's")
        others = stat.S_IWGRP | stat.S_IWOTH
        if own and path != directory and home in path.parents:
            others = stat.S_IWOTH  # The group is the user's own.
        if mode & others and not mode & stat.S_ISVTX:
            reason = f'others may write to {path}; run chmod go-w {path}'
            raise PermissionError(errno.EPERM, reason)


def _prune(directory: pathlib.Path, most: int) -> None:
    """Remove the oldest programs if there are more than a number."""
    with contextlib.suppress(OSError):
        programs = [path for path in directory.glob(PATTERN) if path.is_file()]
        programs.sort(key=lambda path: path.stat().st_mtime)
        for program in programs[: max(0, len(programs) - most)]:
            program.unlink(missing_ok=True)


def _warn(text: str) -> None:
    if world.guess_rank() == 0:
        cure = 'Set AGENTS_CACHE to another directory, or to none.'
        print(f'cache: {text} {cure}', file=sys.stderr)
