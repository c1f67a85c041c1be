"""Reading and writing of files in run directories, which may come from strangers.

A symbolic link could lead to any file of the user, and a pipe or device could block a reader
forever. So writing creates a new file that replaces the old one once it is on disk, and reading
accepts regular files of limited size only. The run directory itself is named by the user and may
be a link; nothing in it may.
"""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import re
import secrets
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn, cast

from agents.tools import errors

# Limits for JSON from strangers.
MAX_BYTES = 2**20
MAX_DEPTH = 100
MAX_VALUES = 100_000

# The names of files that are not complete, from `replacing`.
_NEW = re.compile(r'\..+\.[0-9a-f]{16}\.new')

# What has no influence on the nesting of JSON. A string that nothing ends goes
# on to the end of the text: to find that it is none, and again for each quote
# in it, would take a time that grows with the square of its length.
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[BinaryIO]:
    """Yield a new file to write to, which gets its final name when complete.

    Its attribute `name` is the temporary name, for programs that open the file themselves. It is
    locked, to tell it from leftovers of killed processes.
    """
    new = path.with_name(f'.{path.name}.{secrets.token_hex(8)}.new')
    try:
        with telling(path):
            _require_replaceable(path)
            with _open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
                with contextlib.suppress(OSError):  # Not all disks can.
                    _lock(file)
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.rename(new, path)
            sync(path.parent)
    finally:
        with contextlib.suppress(OSError):  # It has its name, or never was.
            new.unlink()


def place(path: str | pathlib.Path) -> pathlib.Path:
    """Return the path of a file to be written later; its directory must exist.

    Absolute, as environments may change the working directory.
    """
    file = pathlib.Path(path).absolute()
    if not file.parent.is_dir():
        raise errors.ConfigError(f'There is no directory {file.parent}.')
    return file


def write(path: pathlib.Path, contents: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as file:
        file.write(contents)


def write_changed(path: pathlib.Path, contents: bytes) -> None:
    """Write a file unless it has the same contents."""
    if not _holds(path, contents):
        write(path, contents)


def append(path: pathlib.Path, contents: bytes) -> None:
    """Append to a file."""
    with telling(path), _open(path, os.O_WRONLY | os.O_APPEND) as file:
        file.write(contents)


def open_lock(path: pathlib.Path) -> BinaryIO:
    """Open a file for locking."""
    with telling(path):
        return _open(path, os.O_RDWR | os.O_CREAT)


def make_directory(path: pathlib.Path) -> None:
    """Create a directory unless it exists."""
    with telling(path):
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
        if not is_directory(path):
            raise OSError(errno.ENOTDIR, 'It is no directory')


def is_directory(path: pathlib.Path) -> bool:
    """Return whether a directory exists; refuses symbolic links."""
    if os.path.islink(path):
        raise errors.ConfigError(
            f'{path} is a symbolic link, which could lead anywhere and is not '
            'followed. Put what it leads to in its place.'
        )
    return os.path.isdir(path)


def require_no_links(directory: pathlib.Path) -> None:
    """Refuse a directory that contains symbolic links."""
    with telling(directory), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                text = f'{entry.name} in it is a symbolic link; remove it'
                raise OSError(errno.ELOOP, text)


def clear_up(directory: pathlib.Path) -> None:
    """Remove leftovers of processes that were killed while writing."""
    with telling(directory):
        leftovers = [p for p in directory.iterdir() if _NEW.fullmatch(p.name)]
    for path in leftovers:
        # Another process may be writing it, or have removed it.
        with (
            telling(path),
            contextlib.suppress(BlockingIOError, FileNotFoundError),
            _open(path, os.O_RDONLY) as file,
        ):
            _lock(file)
            path.unlink()


def sync(path: pathlib.Path) -> None:
    """Sync a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def telling(path: pathlib.Path) -> Iterator[None]:
    """Turn an OSError into an error that names the file and the reason."""
    try:
        yield
    except errors.UserError:
        raise
    except OSError as error:
        raise errors.WriteError(f'Cannot write to {path}: {reason(error)}.') from error


def reason(error: OSError) -> str:
    """Return the reason of an OSError without the path."""
    if error.strerror == os.strerror(errno.ELOOP):
        return 'It is a symbolic link, which could lead anywhere'
    return error.strerror or str(error).rstrip('.')


@contextlib.contextmanager
def opened(path: pathlib.Path, limit: int) -> Iterator[BinaryIO]:
    """Open a regular file of limited size for reading."""
    try:
        with _open(path, os.O_RDONLY) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise errors.ConfigError(
                    f'Cannot read {path}: It has {size:,} bytes where at most '
                    f'{limit:,} are expected.'
                )
            yield file
    except errors.UserError:
        raise
    except OSError as error:
        raise errors.ConfigError(f'Cannot read {path}: {reason(error)}.') from error


def read(path: pathlib.Path, limit: int) -> bytes:
    """Read a regular file of limited size."""
    with opened(path, limit) as file:
        return file.read(limit)


def parse_json(data: bytes, limit: int = MAX_BYTES) -> Any:
    """Parse JSON with limits on size, depth and number of values, and without duplicate keys.

    Args:
        data: JSON.
        limit: Maximum size in bytes.

    Raises:
        ValueError: If the JSON is invalid or exceeds a limit.
    """
    if len(data) > limit:
        raise ValueError(f'it has more than {limit:,} bytes')
    text = data.decode()
    depth, rest = 0, _STRINGS.sub('', text)
    for bracket in re.findall(r'[\[\]{}]', rest):
        depth += 1 if bracket in '[{' else -1
        if depth > MAX_DEPTH:
            raise ValueError('it is nested too deeply')
    if len(re.findall(r'[,\[{]', rest)) > MAX_VALUES:
        raise ValueError('it holds too many values')
    return json.loads(text, object_pairs_hook=_unambiguous, parse_constant=_refuse)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError('it has the same key twice')
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f'it holds {constant}')


def _open(path: pathlib.Path, flags: int) -> BinaryIO:
    """Open a regular file without following links or blocking."""
    mode = 'rb' if flags & os.O_ACCMODE == os.O_RDONLY else 'wb'
    opener = lambda name, _: _regular(name, flags)  # noqa: E731
    return cast(BinaryIO, open(path, mode, opener=opener))


def _regular(path: str, flags: int) -> int:
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    try:
        _require_regular(os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _holds(path: pathlib.Path, contents: bytes) -> bool:
    try:
        with telling(path), _open(path, os.O_RDONLY) as file:
            return file.read(len(contents) + 1) == contents
    except errors.WriteError:
        if os.path.lexists(path):
            raise
        return False


def _require_replaceable(path: pathlib.Path) -> None:
    """Refuse to replace a link, a directory or a device."""
    with contextlib.suppress(FileNotFoundError):
        _require_regular(os.lstat(path).st_mode)


def _require_regular(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, 'It is no regular file')


def _lock(file: BinaryIO) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
