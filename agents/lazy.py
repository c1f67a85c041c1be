"""Names of a package that are imported on first use.

TensorFlow takes seconds to import and hundreds of megabytes. Environment workers must never import
it, and commands print and start workers before they do.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def exports(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` for a package with lazy names.

    Args:
        package: Name of the package, its `__name__`.
        homes: Module that defines each exported name, or that it is the name of.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f'module {package!r} has no name {name!r}')
        home = homes[name]
        module = importlib.import_module(f'{package}.{home}')
        own = [module] if home.rpartition('.')[2] == name else []
        value = getattr(module, name, *own)
        # Found directly from now on.
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted(homes)

    return __getattr__, __dir__
