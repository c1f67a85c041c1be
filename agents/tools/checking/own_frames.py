"""Traceback lines of the code of an environment."""

import pathlib
import sysconfig
import traceback

# Where code is that is not the environment's. What called it is of no interest
# when it raises, and what it called only if it is from there as well.
PACKAGE = pathlib.Path(__file__).parents[2].resolve()
OURS = tuple(str(PACKAGE / name) for name in ('tools', 'scripts', 'training', 'policies'))
OTHERS = tuple(
    str(pathlib.Path(sysconfig.get_path(kind)).resolve())
    for kind in ('purelib', 'platlib', 'stdlib')
)
MOST_FRAMES = 4


def of_error(error: BaseException) -> list[str]:
    """Return the last traceback lines of an exception in the code of an environment."""
    frames = [
        (str(pathlib.Path(frame.filename).resolve()), frame)
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    frames = [pair for pair in frames if not pair[0].startswith(OURS)]
    own = [pair for pair in frames if not pair[0].startswith(OTHERS)]
    return [
        f'{_shown(path)}:{frame.lineno} in {frame.name}: {frame.line}'
        for path, frame in (own or frames[-1:])[-MOST_FRAMES:]
    ]


def _shown(filename: str) -> str:
    """Return a path relative to the working directory if it is below."""
    path, here = pathlib.Path(filename), pathlib.Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
