"""Arguments of classes and functions that make environments."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from agents.tools import errors
from agents.training.env_names import name_of


def require_arguments(make: Callable[..., Any], name: str, kwargs: Mapping[str, Any]) -> None:
    """Refuse `env_kwargs` that a class or function does not take, or missing required ones.

    Raises:
        EnvError: As it may cross the boundary of a worker.
    """
    parameters = _keywords(make)
    if parameters is None:
        return
    known = [key for key in parameters if key != 'render_mode']
    listed = ', '.join(known) or 'none'
    for key in kwargs:
        if key == 'render_mode' and key not in parameters:
            raise lacks_rendering(name)
        if key not in parameters:
            near = errors.nearest(key, known)
            raise errors.EnvError(
                f'The env_kwargs of {name} must be among its arguments '
                f'({listed}), got {key!r}{near}'
            )
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty and key not in kwargs
    ]
    if missing:
        raise errors.EnvError(
            f'The env_kwargs of {name} must have {", ".join(missing)}, got '
            f'{dict(kwargs)}. Its arguments are {listed}; set them as in '
            f"--set 'env_kwargs={{{missing[0]}: VALUE}}'."
        )


def _keywords(make: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """Return the keyword arguments of a callable, None if unknown.

    A class with `**kwargs` passes unknown ones to its bases.
    """
    places = [make]
    if isinstance(make, type):
        kinds = [kind for kind in make.__mro__[:-1] if '__init__' in vars(kind)]
        if any('__new__' in vars(kind) for kind in make.__mro__[:-1]):
            return None
        if not kinds:
            return {}
        places = [functools.partial(vars(k)['__init__'], None) for k in kinds]
    found: dict[str, inspect.Parameter] = {}
    for place in places:
        try:
            parameters = inspect.signature(place).parameters.values()
        except (TypeError, ValueError):
            return None
        if any(each.kind == each.POSITIONAL_ONLY for each in parameters):
            return None
        for each in parameters:
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
                # Only those of the class itself have to be named.
                default = each.default if place is places[0] else None
                found.setdefault(each.name, each.replace(default=default))
        if all(each.kind != each.VAR_KEYWORD for each in parameters):
            return found
    return None


def require_rendering(env: Any) -> None:
    """Refuse a function of the user that takes no render mode."""
    if not takes_render_mode(env):
        raise lacks_rendering(name_of(env))


def lacks_rendering(name: str) -> errors.EnvError:
    return errors.EnvError(
        f'{name} takes no argument render_mode, by which environments are '
        'asked for frames, so there is no video. Add render_mode=None to its '
        'arguments and pass it on to the environment, whose render() returns '
        'frames if it is "rgb_array".'
    )


def takes_render_mode(env: Any) -> bool:
    """Return whether an environment takes a render mode; names do."""
    if not callable(env):
        return True
    try:
        parameters = inspect.signature(env).parameters
    except (TypeError, ValueError):  # It does not tell.
        return True
    keywords = inspect.Parameter.VAR_KEYWORD
    kinds = [parameter.kind for parameter in parameters.values()]
    return 'render_mode' in parameters or keywords in kinds
