"""Dictionary with attribute access that is locked against changes."""

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from agents.tools import errors


class AttrDict(dict):
    """Dictionary whose entries are attributes, locked after construction.

    A configuration is passed from the command line to environments and algorithms. Any of them
    could change it, and neither the file that defines it nor the one saved beside the results would
    show that. So a change must be explicit:

        config = AttrDict(learning_rate=1e-3)
        config.learning_rate  # 0.001
        with config.unlocked:
            config.learning_rate = 1e-4

    Unknown keys raise an error that suggests the closest one, when read and when passed to
    constructors such as `agents.scripts.configs.ppo`.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, '_locked', True)

    @property
    def unlocked(self) -> contextlib.AbstractContextManager['AttrDict']:
        """Context within which entries can be set and deleted."""
        return self._unlock()

    @contextlib.contextmanager
    def _unlock(self) -> Iterator['AttrDict']:
        before = self._locked
        object.__setattr__(self, '_locked', False)
        try:
            yield self
        finally:
            object.__setattr__(self, '_locked', before)

    def copy(self, **changes: Any) -> 'AttrDict':
        """Return a locked copy with some entries replaced; refuses new keys."""
        for key in changes:
            if key not in self:
                raise errors.ConfigError(self._unknown(key))
        return AttrDict({**self, **changes})

    def __getattr__(self, key: str) -> Any:
        # Protocols of Python such as copying and pickling probe for dunder
        # names, which are never entries.
        if key.startswith('__') or key not in self:
            raise AttributeError(self._unknown(key))
        return dict.__getitem__(self, key)

    def __missing__(self, key: str) -> NoReturn:
        raise KeyError(self._unknown(key))

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __delattr__(self, key: str) -> None:
        if key not in self:
            raise AttributeError(self._unknown(key))
        del self[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._require_unlocked(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._require_unlocked(key)
        super().__delitem__(key)

    def update(self, *args: Any, **kwargs: Any) -> None:
        entries = dict(*args, **kwargs)
        for key in entries:
            self._require_unlocked(key)
        super().update(entries)

    def __ior__(self, other: Any) -> 'AttrDict':  # type: ignore[misc]
        self.update(other)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        self._require_unlocked(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        self._require_unlocked('the last entry')
        return super().popitem()

    def clear(self) -> None:
        self._require_unlocked('every entry')
        super().clear()

    def __reduce__(self) -> tuple:
        return AttrDict, (dict(self),)

    def _require_unlocked(self, key: str) -> None:
        if self._locked:
            raise RuntimeError(
                f'Cannot change {key!r} of a locked AttrDict; do so within '
                f'`with config.unlocked:`, or take `config.copy({key}=...)`.'
            )

    def _unknown(self, key: str) -> str:
        names = ', '.join(sorted(map(str, self)))
        return f'There is no {key!r}{errors.nearest(key, self)} Among: {names}.'
