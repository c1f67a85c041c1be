"""Where compiled programs are kept from one run to the next.

Compiling takes longer than tracing and importing together, and the same
configuration compiles to the same program. The directory belongs to the user
and is named after all that a program depends on, so that another processor or
version never loads it. `AGENTS_CACHE` names another place, or is empty for
none.

What is in there is run, so that nobody else may be able to write it.
"""

import contextlib
import hashlib
import os
import pathlib
import platform
import re
import shutil
import stat
import sys
from importlib import metadata

from agents.tools import errors

FREE_BYTES = 500_000_000
MAX_PROGRAMS = 200

# The names of the files that TensorFlow writes; no others are touched.
_PROGRAM = re.compile(r'xla_compile_cache__[0-9]+__[0-9]+__\w+\.pb')


def flags() -> str:
    """The flags of TensorFlow that make it use the cache, if there is one."""
    try:
        directory = _directory()
        if directory is None or not _is_usable(directory):
            return ''
    except errors.UserError as error:
        print(f'cache: {error}', file=sys.stderr)
        return ''
    damaged = _prune(directory)
    if damaged:
        text = f'{damaged} damaged programs in {directory} have been removed.'
        print(f'cache: {text}', file=sys.stderr)
    return (
        f'--tf_xla_persistent_cache_directory={directory} '
        '--tf_xla_persistent_cache_device_types=CPU,XLA_CPU_JIT'
    )


def clear() -> pathlib.Path | None:
    """Forget all programs of this processor and version."""
    directory = _directory()
    if directory is not None:
        for program in _programs(directory):
            _remove(program)
    return directory


def _directory() -> pathlib.Path | None:
    chosen = os.environ.get('AGENTS_CACHE')
    if chosen is None:
        base = os.environ.get('XDG_CACHE_HOME') or _home_cache()
        chosen = base and os.path.join(base, 'agents')
    if not chosen:
        return None
    versions = [metadata.version('tensorflow'), metadata.version('keras')]
    parts = [_processor(), *versions, os.environ.get('XLA_FLAGS', '')]
    name = hashlib.sha256('\n'.join(parts).encode()).hexdigest()[:16]
    return pathlib.Path(chosen).absolute() / name


def _home_cache() -> str:
    try:
        return str(pathlib.Path.home() / '.cache')
    except RuntimeError:  # The user has neither a home nor a name.
        return ''


def _processor() -> str:
    """The model of the processor and what it can do."""
    with contextlib.suppress(OSError):
        lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
        names = 'model name', 'flags', 'Features', 'CPU part'
        return '\n'.join(sorted({x for x in lines if x.startswith(names)}))
    return f'{platform.machine()} {platform.processor()}'


def _is_usable(directory: pathlib.Path) -> bool:
    """Whether there is room; one that others may write to is refused."""
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (directory, directory.parent):
            _require_own(path)
        for path in directory.parent.parents:
            _require_settled(path)
        free = shutil.disk_usage(directory).free
        return os.access(directory, os.W_OK) and free > FREE_BYTES
    return False


def _require_own(path: pathlib.Path) -> None:
    """Refuse a directory that is not the user's own."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise _refusal(path, 'is a link', 'Remove it')
    if found.st_uid != os.geteuid():
        raise _refusal(path, "is another user's", 'Remove it')
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refusal(
            path, 'may be written to by others', f'Run chmod go-w {path}'
        )


def _require_settled(path: pathlib.Path) -> None:
    """Refuse a directory in which others may replace what is the user's."""
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise _refusal(
            path, 'may be written to by anybody', f'Run chmod o-w {path}'
        )


def _refusal(path: pathlib.Path, what: str, cure: str) -> errors.ConfigError:
    return errors.ConfigError(
        f'{path} {what}, so that no compiled programs are taken from there '
        f'nor kept. {cure}, or name another directory by AGENTS_CACHE.'
    )


def _prune(directory: pathlib.Path) -> int:
    """Remove programs that are damaged, and the oldest if there are many.

    Returns:
        How many were damaged.
    """
    programs = _programs(directory)
    damaged = [program for program in programs if not _is_whole(program)]
    with contextlib.suppress(OSError):
        ages = {path: path.stat().st_mtime for path in programs}
        kept = sorted({*programs} - {*damaged}, key=lambda path: ages[path])
        for program in [*damaged, *kept[:-MAX_PROGRAMS]]:
            _remove(program)
    return len(damaged)


def _programs(directory: pathlib.Path) -> list[pathlib.Path]:
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return [
            pathlib.Path(entry.path)
            for entry in entries
            if _PROGRAM.fullmatch(entry.name)
            and not entry.is_dir(follow_symlinks=False)
        ]
    return []


def _remove(program: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        program.unlink()  # The link itself, if it is one.


def _is_whole(program: pathlib.Path) -> bool:
    """Whether a file is one message from its beginning to its end.

    TensorFlow ends with an error if it is not. Only the lengths of the parts
    are looked at, as reading everything would take longer than it saves.
    """
    try:
        if program.is_symlink():
            return False
        with program.open('rb', buffering=0) as file:
            size, position = os.fstat(file.fileno()).st_size, 0
            while position < size:
                file.seek(position)
                head = file.read(11)
                length, used = _length(head)
                position += used + length
            return 0 < size == position
    except FileNotFoundError:
        return True  # Another process has just removed it.
    except (OSError, ValueError):
        return False


def _length(head: bytes) -> tuple[int, int]:
    """How long a part is, and how long what tells of it.

    Parts are strings of bytes or messages: a byte with the number of the part
    and the kind 2, then the length in digits of seven bits.
    """
    if not head or head[0] & 0x87 != 2:
        raise ValueError('It is no string of bytes.')
    length = 0
    for place, digit in enumerate(head[1:]):
        length |= (digit & 0x7F) << 7 * place
        if digit < 0x80:
            return length, place + 2
    raise ValueError('It has no length.')
