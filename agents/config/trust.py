"""Decision on which values of a file may lead to code that is run.

Runs and sweeps may come from strangers, and some values of their files name code: a function, a
module, a file. They are used if this user has signed the file on this machine, or by `--trust`.
Which texts of a setting name no code is part of its definition, see `agents.config.settings`.

A signature covers the values that name code, the path of the file, and the files and modules that
the values lead to. So it is invalid for a copy, after an edit, and where the same name leads to
other code, as in another working directory.
"""

import contextlib
import hmac
import importlib.util
import json
import os
import pathlib
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from agents.config import lookup, plain_yaml
from agents.config.settings import SETTINGS
from agents.tools import errors

# Texts that lead to no code, by setting, and for the config of a sweep.
SAFE_TEXTS = {**{key: setting.safe_texts for key, setting in SETTINGS.items()}, 'config': '[^:]*'}

KEY_BYTES = 32

# How much of a value is shown.
MOST_CHARACTERS = 300

NOT_SIGNED = 'its settings were not written by you on this machine, or not by this version'
CHANGED = (
    'its settings were not written by you, or were copied, moved or edited '
    'since, or the name leads to other code now'
)

Pairs = Iterable[tuple[str, Any]]

# What this process has told already.
_told: set[str] = set()


def names_code(key: str, value: Any) -> bool:
    """Return whether a plain value of a setting may name code."""
    return any(True for _ in _find_code(key, value))


def sign(path: pathlib.Path, pairs: Pairs) -> str:
    """Sign the values of a file that name code.

    Args:
        path: Path of the file.
        pairs: Names of settings and plain values.

    Returns:
        Signature; empty if no value names code, or there is no key.
    """
    code = _select(pairs)
    key = _read_key(create=True) if code else None
    return _compute_signature(key, path, code) if key else ''


def find_doubt(path: pathlib.Path, pairs: Pairs, signature: Any) -> str:
    """Return why values of a file that name code must not be used.

    Args:
        path: Path of the file.
        pairs: Names of settings and plain values.
        signature: Result of `sign`.

    Returns:
        Reason as a clause; empty if the user has signed the file, or nothing in it names code.
    """
    code = _select(pairs)
    if not code:
        return ''
    key = _read_key(create=False)
    if not key or not signature or not isinstance(signature, str):
        return NOT_SIGNED
    for text in _find_all_code(code):
        problem = _find_problem(_split(text)[0])
        if problem:
            return problem
    expected = _compute_signature(key, path, code)
    matches = hmac.compare_digest(expected.encode(), signature.encode())
    return '' if matches else CHANGED


def locate(value: Any) -> Any:
    """Return a setting with texts by which its functions are found again.

    A function that cannot be found again stays as `simplify` writes it.
    """
    located = _locate_parts(value)
    source = lookup.find_source(value)
    if source and not is_located(located):
        return f'<function {source}>'
    return located


def is_located(value: Any) -> bool:
    """Return whether all functions of a plain value can be found again."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return all(map(is_located, parts))
    return not plain_yaml.names_function(value) or ':' in value


def find_missing_file(value: Any) -> str:
    """Return a missing file that a function of a plain value is in.

    Returns:
        Path; empty if no file is missing.
    """
    for text in _find_code('', value):
        file = _split(text)[0]
        if file.endswith('.py') and not os.path.exists(file):
            return file
    return ''


def find_functions(key: str, located: Any) -> Any:
    """Import the functions of a setting that `locate` has described."""
    if isinstance(located, dict):
        return {name: find_functions(key, x) for name, x in located.items()}
    if isinstance(located, list):
        return [find_functions(key, part) for part in located]
    if not plain_yaml.names_function(located):
        return located
    found = lookup.find_again(plain_yaml.bare_name(located))
    return found[key] if isinstance(found, dict) else found


def show(key: str, value: Any, path: pathlib.Path) -> None:
    """Print which code a file names that is going to be run."""
    shown = errors.shorten(repr(value), MOST_CHARACTERS)
    found = [
        place
        for text in _find_code(key, value)
        for place in _find_places(text)
        if isinstance(place, str)
    ]
    where = f' ({", ".join(found)})' if found else ''
    _tell(f'{key} of {path} is {shown}{where}')


def refuse(key: str, value: Any, what: str, doubt: str, own: str = '') -> errors.ConfigError:
    """Make the error for a value that names code.

    Args:
        key: Name of the setting.
        value: Value, with functions as `locate` describes them.
        what: File or directory that has it.
        doubt: Reason not to use it, see `find_doubt`.
        own: Clause about the value of the caller, if there is one.
    """
    named = plain_yaml.bare_name(value) if isinstance(value, str) else value
    shown = errors.shorten(repr(named), MOST_CHARACTERS)
    if not is_located(value):
        return errors.ConfigError(
            f'The setting {key!r} of {what} is a function or class ({shown}) '
            'that was defined in a notebook, in a script that was run itself '
            'or inside another function, so that it cannot be imported again. '
            'Pass --config=file.py:function or --env=file.py:function (config= '
            'or env= in Python).'
        )
    named_code = f'The setting {key!r} of {what} names code ({shown}), and '
    if file := find_missing_file(value):
        return errors.ConfigError(
            f'{named_code}{_tell_missing(file)}{own}. Pass --config or --env '
            'of your own (config= or env= in Python).'
        )
    return errors.ConfigError(
        f'{named_code}{doubt}{own}. Pass --trust (trust=True in Python) to run '
        'that code, or --config or --env of your own.'
    )


def _tell_missing(file: str) -> str:
    return f'the file {file} is not there any more'


def _tell(text: str) -> None:
    """Print a line on standard error, once per process."""
    if text not in _told:
        _told.add(text)
        print(f'trust: {errors.escape(text)}', file=sys.stderr, flush=True)


def _locate_parts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _locate_parts(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_locate_parts(part) for part in value]
    text = lookup.locate(value) if callable(value) else None
    return f'<function {text}>' if text else plain_yaml.simplify(value)


def _select(pairs: Pairs) -> list[list[Any]]:
    """Return the pairs whose values may lead to code, sorted by name."""
    code = [[key, value] for key, value in pairs if names_code(key, value)]
    return sorted(code, key=lambda pair: pair[0])


def _find_all_code(pairs: Iterable[Iterable[Any]]) -> Iterator[str]:
    for key, value in pairs:
        yield from _find_code(key, value)


def _find_code(key: str, value: Any) -> Iterator[str]:
    """Yield the texts of a plain value that may name code."""
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _find_code(key, part)
    elif isinstance(value, str):
        safe = SAFE_TEXTS.get(key)
        unsafe = safe is not None and not re.fullmatch(safe, value)
        if unsafe or plain_yaml.names_function(value):
            yield value


def _compute_signature(key: bytes, path: pathlib.Path, code: list) -> str:
    places = [_find_places(text) for text in _find_all_code(code)]
    facts = json.dumps([os.path.realpath(path), code, places], sort_keys=True)
    return hmac.new(key, facts.encode(), 'sha256').hexdigest()


def _find_places(text: str) -> list[Any]:
    """Return the file with its owner, and the module, that a text leads to."""
    file, module = _split(text)
    places: list[Any] = []
    if file and os.path.lexists(file):
        places += [os.path.abspath(file), os.lstat(file).st_uid]
    if module:
        places.append(_find_origin(module))
    return places


def _split(text: str) -> tuple[str, str]:
    """Return the file and the outermost module that a text may name."""
    if plain_yaml.names_function(text):
        if not is_located(text):
            return '', ''
        text = plain_yaml.bare_name(text)
    file, _, _ = text.rpartition(':')
    if file.endswith('.py'):
        return file, ''
    match = re.match(r'(?:(?:native|vector|envpool):)*([^\W\d]\w*)[.:]', text)
    return text, match[1] if match else ''


def _find_origin(module: str) -> Any:
    """Return the file from which a module would be imported, without importing it."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    return spec.origin or list(spec.submodule_search_locations or ())


def _find_problem(file: str) -> str:
    """Return why a file of code is not as safe as when it was signed, or an empty text."""
    if not file.endswith('.py'):
        return ''
    try:
        found, directory = os.stat(file), os.stat(os.path.dirname(file) or '.')
    except (OSError, ValueError):  # Of a path with a null byte.
        return _tell_missing(file)
    shared = stat.S_IWOTH
    if found.st_gid != os.getegid():
        shared |= stat.S_IWGRP
    if found.st_mode & shared or directory.st_mode & stat.S_IWOTH:
        return f'other users may write to {file}'
    return ''


# The key


def _read_key(create: bool) -> bytes | None:
    """Return the key of the user for signatures; None if it cannot be used."""
    path = pathlib.Path('the directory of the state')
    try:
        path = _find_key_file()
        if not os.path.lexists(path):
            if not create:
                return None
            _make_key(path)
        _require_private(os.lstat(path.parent), stat.S_ISDIR, 0o022)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), 'rb') as file:
            _require_private(os.fstat(file.fileno()), stat.S_ISREG, 0o077)
            key = file.read(KEY_BYTES + 1)
        if len(key) != KEY_BYTES:
            raise OSError(f'It does not have {KEY_BYTES} bytes')
        return key
    except (OSError, RuntimeError) as error:
        reason = getattr(error, 'strerror', None) or error
        _tell(
            f'{path} cannot be used as a key: {reason}. Runs are not signed; '
            'to open one that names code takes --trust.'
        )
        return None


def _find_key_file() -> pathlib.Path:
    chosen = os.environ.get('XDG_STATE_HOME', '')
    if not os.path.isabs(chosen):
        chosen = str(pathlib.Path.home() / '.local' / 'state')
    return pathlib.Path(chosen) / 'agents' / 'key'


def _make_key(path: pathlib.Path) -> None:
    """Create the key; if several processes do so at once, all use that of one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f'.{path.name}.{secrets.token_hex(8)}.new')
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(new, flags, 0o600), 'wb') as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


def _require_private(found: os.stat_result, is_kind: Any, forbidden: int) -> None:
    if not is_kind(found.st_mode):
        raise OSError('It is a link or of another kind')
    if found.st_uid != os.geteuid():
        raise OSError("It is another user's")
    if found.st_mode & forbidden:
        raise OSError('Others may read or write it; run chmod -R go-rwx')
