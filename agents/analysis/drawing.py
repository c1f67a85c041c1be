"""Drawing of lines with bands."""

import dataclasses
import io
import math
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.tools import errors
from agents.tools.runs import files

FORMATS = '.png', '.svg'
SIZE = 7.0, 4.0

# Size of each where there are several, and how many can be seen.
PANEL = 4.2, 3.0
MOST_PANELS = 40
DPI = 150

# Points of a line beyond these would not be seen, and are too many to draw.
MOST_POINTS = 20_000

# Lines of a group in several phases differ by how they are drawn, and so do
# those for which there are no colors left.
STYLES = '-', (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))

# Numbers from here on have no letters.
BEYOND = 1e12

# Units of time, and from how many seconds on they are used.
TIMES = (('hours', 3600, 7200), ('minutes', 60, 300), ('seconds', 1, 0))


class Theme(NamedTuple):
    """Colors; those of lines are distinguishable for the colorblind."""

    ground: str
    ink: str
    pale: str
    grid: str
    lines: tuple[str, ...]


# Lines after Okabe and Ito 2008, Color Universal Design, lighter on dark.
THEMES: Mapping[str, Theme] = {
    'light': Theme(
        '#ffffff',
        '#1f2328',
        '#636c76',
        '#e6e8eb',
        ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00'),
    ),
    'dark': Theme(
        '#0d1117',
        '#e6edf3',
        '#9198a1',
        '#262c36',
        ('#58a6e8', '#f0883e', '#2fbf91', '#dd92bd', '#a5d8ff', '#f0c419'),
    ),
}


@dataclasses.dataclass(frozen=True)
class Line:
    """Line with a band.

    Attributes:
        name: Name in the legend, or ''.
        places: Steps or seconds.
        values: Values.
        low: Lower edge of the band, NaN without a band.
        high: Upper edge of the band.
        color: Index of the color.
        style: Index of the style.
    """

    name: str
    places: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    color: int = 0
    style: int = 0


def draw(
    panels: Mapping[str, Sequence[Line]],
    title: str = '',
    subtitle: str = '',
    axis: str = 'steps',
    theme: str = 'light',
    y: str = 'score',
) -> Any:
    """Draw lines in panels; returns a figure of matplotlib.

    Texts are drawn literally, as some may come from strangers.

    Args:
        panels: Lines of each panel by its title, which is drawn if there are several.
        title: Title.
        subtitle: Description of lines and bands.
        axis: Horizontal axis, `steps` or `seconds`.
        theme: Name of the theme.
        y: Name of the values.
    """
    from matplotlib.figure import Figure

    if len(panels) > MOST_PANELS:
        raise errors.ConfigError(
            f'A plot must have at most {MOST_PANELS} environments, got '
            f'{len(panels)}. Name fewer runs.'
        )
    colors = THEMES[theme]
    count = len(panels)
    columns = next(n for n in (1, 2, 3, 4) if n * n >= count or n == 4)
    rows = math.ceil(count / columns)
    size = SIZE if count == 1 else (PANEL[0] * columns, PANEL[1] * rows)
    figure = Figure(figsize=size, dpi=DPI, layout='constrained', facecolor=colors.ground)
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in every[count:]:
        unused.remove()
    named: dict[str, Line] = {}
    for axes, (name, lines) in zip(every, panels.items(), strict=False):
        unit, scale = _unit(axis, lines)
        for line in lines:
            _draw_line(axes, line, scale, colors)
        _dress(axes, colors, unit, y)
        _head(axes, *((title, subtitle) if count == 1 else (name, '')), colors)
        own = {line.name: line for line in lines if line.name}
        named |= {key: line for key, line in own.items() if len(line.places)}
    if count > 1:
        _head_all(figure, title, subtitle, colors)
    if named:
        _add_legend(figure, list(named.values()), colors)
    return figure


def save(figure: Any, file: pathlib.Path) -> None:
    """Write a figure to a file, in the format of its extension."""
    files.write(file, encode(figure, file.suffix.lower()[1:]))


def encode(figure: Any, format: str) -> bytes:
    """Return the contents of a file; equal figures give equal files."""
    import matplotlib

    image = io.BytesIO()
    # Dates and numbers by chance would make it another file each time.
    metadata = {'png': {'Software': None}, 'svg': {'Date': None}}[format]
    with matplotlib.rc_context({'svg.hashsalt': 'agents'}), warnings.catch_warnings():
        warnings.simplefilter('ignore')  # Such as of letters no font has.
        figure.savefig(image, format=format, dpi=DPI, metadata=metadata)
    return image.getvalue()


def require_format(file: pathlib.Path) -> None:
    """Refuse a file without a known extension."""
    if file.suffix.lower() not in FORMATS:
        raise errors.ConfigError(f'{file} must end with {" or ".join(FORMATS)}. Rename it.')


def short_number(value: float) -> str:
    """Format a number with few digits: 950, 20k, 1.5M."""
    if abs(value) >= BEYOND:
        return f'{value:.3g}'.replace('-', '−')
    letter, size = '', 1.0
    for larger, than in (('k', 1e3), ('M', 1e6), ('G', 1e9)):
        # Rounded first, so that 999,999.9 is no 1000k.
        if abs(float(f'{value:.4g}')) >= than:
            letter, size = larger, than
    return f'{value / size:.4g}{letter}'.replace('-', '−')


def _unit(axis: str, lines: Sequence[Line]) -> tuple[str, float]:
    """Return the unit of the horizontal axis, and its size."""
    if axis == 'steps':
        return 'training steps', 1.0
    longest = max((max(each.places, default=0) for each in lines), default=0)
    return next((unit, size) for unit, size, least in TIMES if longest >= least)


def _draw_line(axes: Any, line: Line, scale: float, colors: Theme) -> None:
    color, style = _look(line, colors)
    count = len(line.places)
    shown = np.linspace(0, count - 1, min(count, MOST_POINTS)).round()
    places, values, low, high = [
        each[shown.astype(int)] for each in (line.places / scale, line.values, line.low, line.high)
    ]
    axes.fill_between(places, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(
        places,
        values,
        color=color,
        linewidth=1.8,
        linestyle=style,
        # A single point would be no line.
        marker='o' if len(places) == 1 else '',
        solid_capstyle='round',
    )


def _look(line: Line, colors: Theme) -> tuple[str, Any]:
    """Return the color and the style of a line."""
    again, color = divmod(line.color, len(colors.lines))
    return colors.lines[color], STYLES[(line.style + again) % len(STYLES)]


def _dress(axes: Any, colors: Theme, unit: str, y: str) -> None:
    """Style the axes."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_facecolor(colors.ground)
    axes.set_xlabel(unit, color=colors.pale)
    axes.set_ylabel(errors.escape(y), color=colors.pale, parse_math=False)
    axes.spines[['top', 'right', 'left']].set_visible(False)
    axes.spines['bottom'].set_color(colors.pale)
    axes.grid(axis='y', color=colors.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis='both', colors=colors.pale, labelsize=9, length=0)
    axes.tick_params(axis='x', length=3)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    numbers = FuncFormatter(lambda value, _: short_number(value))
    axes.xaxis.set_major_formatter(numbers)
    axes.yaxis.set_major_formatter(numbers)
    axes.margins(x=0.01)
    axes.set_xlim(left=0)


def _head(axes: Any, title: str, subtitle: str, colors: Theme) -> None:
    lift = 1.0
    for text, size, weight, color in (
        (subtitle, 9, 'normal', colors.pale),
        (title, 12, 'bold', colors.ink),
    ):
        if text:
            axes.annotate(
                errors.escape(text),
                (0, 1),
                (0, 8 * lift),
                xycoords='axes fraction',
                textcoords='offset points',
                fontsize=size,
                fontweight=weight,
                color=color,
                parse_math=False,
            )
            lift += 1.9


def _head_all(figure: Any, title: str, subtitle: str, colors: Theme) -> None:
    """Draw a title above several panels."""
    text = '\n'.join(errors.escape(each) for each in (title, subtitle) if each)
    above = figure.suptitle(
        text, x=0.01, horizontalalignment='left', fontsize=10, color=colors.pale
    )
    above.set_parse_math(False)


def _add_legend(figure: Any, lines: Sequence[Line], colors: Theme) -> None:
    """Draw the names of lines below the axes."""
    from matplotlib.lines import Line2D

    handles = []
    for line in lines:
        color, style = _look(line, colors)
        handles.append(Line2D([], [], color=color, linestyle=style, linewidth=1.8))
    longest = max(len(line.name) for line in lines)
    columns = 1 if longest > 45 else 2 if longest > 26 else 3
    rows = math.ceil(len(lines) / columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    legend = figure.legend(
        handles,
        [errors.escape(line.name) for line in lines],
        loc='outside lower left',
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=colors.ink,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
