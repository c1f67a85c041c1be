"""Output of a check, line by line."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from agents.tools import choices, cpu, errors, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.checking.inspection_report import Breach, Report
from agents.tools.checking.ranges import Range
from agents.training import env_kinds, env_names, env_setup, plan
from agents.training.env_kinds import single

if TYPE_CHECKING:  # It imports this module.
    from agents.training.check_env import Check

# Numbers beyond this had better be normalized.
LARGE = 10.0

NEVER_TRUNCATED = 'the environment has no time limit; max_length=<steps> truncates episodes'

# What to do about breaches that do not tell by themselves.
REMEDIES = {
    'bounds': "Correct the space, or clip them by observ_bounds='clip'.",
    'type': 'It is converted at every step.',
}


def describe(found: 'Check') -> Iterator[tuple[str, str | list[str]]]:
    """Yield topics with their text; lists are preformatted lines."""
    report, config = found.report, found.config
    yield 'env', f'{env_names.name_of(config.env)}{_describe_steps(found)}'
    if report.steps:
        yield 'observ', _list_leaves(report, config)
        yield 'actions', _describe_actions(report)
        yield 'rewards', _describe_rewards(report.reward, config)
        yield 'episodes', _describe_episodes(report, config)
    if report.step_seconds:
        yield 'speed', _describe_speed(report, config)
    if report.repeated:
        yield 'seed', _describe_repeating(report)
    if report.steps:
        yield 'video', _describe_video(report, config)
    for text in report.warnings:
        yield 'warning', text
    yield from list_breaches(report)
    if any(breach.ends for breach in report.breaches):
        yield 'train', 'not as it is; a training would end by an error above'
        return
    if not report.breaches:
        yield 'contract', 'nothing wrong'
    for number, line in enumerate(_list_network(report, config)):
        yield '' if number else 'network', line
    yield 'train', found.train


def _describe_steps(found: 'Check') -> str:
    """Describe how many steps were taken, and why not all."""
    steps, seconds = found.report.steps, found.report.seconds
    if not steps:
        return ''
    if seconds is None:
        return f', {steps:,} steps of random actions'
    return (
        f', {steps:,} of {found.steps:,} steps of random actions in '
        f'{seconds:.0f} s; --seconds allows more'
    )


def list_breaches(report: Report) -> Iterator[tuple[str, str | list[str]]]:
    """Yield violations, first those that would end a training."""
    for breach in sorted(report.breaches, key=lambda each: not each.ends):
        yield 'error' if breach.ends else 'wrong', _describe_breach(breach)
        yield '', [f'  {frame}' for frame in breach.frames]


def _list_leaves(report: Report, config: AttrDict) -> list[str]:
    """Return a table with the ranges of the leaves of observations."""
    space = report.observation_space
    assert space is not None
    rows: list[tuple[str, ...]] = [('', '', 'bounds', 'min', 'max', 'mean', 'std', '')]
    for name, leaf, seen in zip(
        nested.names(spaces.specs(space)), spaces.leaves(space), report.observ, strict=True
    ):
        numbers = seen.least, seen.most, seen.mean, seen.deviation
        cells = name, _space(leaf), _bounds(leaf), *map(_number, numbers)
        rows.append((*cells, _remark(name, leaf, seen, config)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = '<<<>>>><'
    return [
        '  '.join(
            f'{cell:{side}{width}}'
            for cell, side, width in zip(row, sides, widths, strict=True)
            if width
        )
        for row in rows
    ]


def _space(space: gym.Space) -> str:
    """Format a space without its bounds."""
    kind = type(space).__name__
    match space:
        case gym.spaces.Box() | gym.spaces.MultiBinary():
            shape = '×'.join(map(str, space.shape)) or '()'
            return f'{kind} {shape} {space.dtype}'
        case gym.spaces.Discrete():
            start = f' from {space.start}' if space.start else ''
            return f'{kind} {space.n}{start}'
        case gym.spaces.MultiDiscrete():
            return f'{kind} {errors.shorten(str(space.nvec.tolist()), 20)}'
    return kind


def _bounds(space: gym.Space) -> str:
    if not isinstance(space, gym.spaces.Box):
        return ''
    low, high = map(spaces.is_bound, (space.low, space.high))
    if not (low.any() or high.any()):
        return 'none'
    if not (low.all() and high.all()):
        return 'some'
    return f'{_number(space.low.min())} to {_number(space.high.max())}'


def _remark(name: str, space: gym.Space, seen: Range, config: AttrDict) -> str:
    """Return a remark on a leaf of the observations that may harm training."""
    if name == choices.KEY:
        return ''
    if not seen.count:
        return 'never as its space says'
    constant, size = len(seen.constant), math.prod(spaces.shape(space))
    if constant == size:
        return 'never changes'
    numbers = isinstance(space, gym.spaces.Box) and space.dtype != np.uint8
    if numbers and len(spaces.shape(space)) == 3:
        return 'if an image, make it uint8'
    if numbers and _is_large(seen) and not config.normalize_observ:
        return 'large; set normalize_observ=true'
    return f'{constant} of {size} never change' if constant else ''


def _is_large(seen: Range) -> bool:
    """Return whether numbers should be normalized."""
    return max(abs(seen.mean), seen.deviation) > LARGE


def _describe_actions(report: Report) -> str:
    space = report.action_space
    assert space is not None
    bounds = _bounds(space)
    text = _space(space)
    if bounds in ('none', 'some'):
        text += ', not bounded: a policy may choose any number'
    elif bounds:
        text += f', {bounds}'
    if report.possible:
        share = float(np.mean(report.possible))
        text += f'; {share:.0%} possible by the mask in the {report.masked}'
    return text


def _describe_rewards(reward: Range, config: AttrDict) -> str:
    if not reward.count:
        return 'no number'
    if reward.least == reward.most:
        text = f'always {_number(reward.most)}'
        if not reward.most:
            text += '; random actions meet no reward, learning may take long'
    else:
        text = (
            f'{_number(reward.least)} to {_number(reward.most)}, mean '
            f'{_number(reward.mean)}, std {_number(reward.deviation)}'
        )
        if reward.zeros:
            text += f', {reward.zeros / reward.count:.1%} of them 0'
    if _is_large(reward) and not config.normalize_reward:
        text += '; large, set normalize_reward=true'
    return text


def _describe_episodes(report: Report, config: AttrDict) -> str:
    limit = report.limit or env_setup.limit(config)
    by = 'max_length' if limit == config.max_length else 'as registered'
    if report.limit and limit != config.max_length:
        by = f'max_length of {env_names.name_of(config.env)}'
    cut = f'truncated at {limit:,} steps ({by})' if limit else ''
    if not report.lengths:
        later = f'those of a training are {cut}' if limit else NEVER_TRUNCATED
        return f'none ended so far; {later}'
    ends = {
        'terminated': report.terminated,
        'truncated by itself': report.truncated,
        cut: report.cut,
    }
    told = [f'{count:,} {end}' for end, count in ends.items() if count]
    return f'{", ".join(told)}; score {_spread(report.scores)}, length {_spread(report.lengths)}'


def _describe_speed(report: Report, config: AttrDict) -> str:
    steps, resets = report.step_seconds, report.reset_seconds
    if agents := env_kinds.of(config).inspected_agents:
        rate = float(f'{len(steps) / sum(steps):.3g}')
        return f'{rate:,.0f} steps/s by a compiled program of {agents} agents'
    rate = float(f'{len(steps) / (sum(steps) + sum(resets)):.3g}')
    count = config.num_agents
    workers = min(config.num_workers or len(cpu.cores()), count)
    here = single.is_quicker_here(count, workers, float(np.median(steps)))
    where = 'the process of the training' if here else f'{workers} workers'
    return (
        f'{_duration(np.mean(steps))} a step, {_duration(np.mean(resets))} a '
        f'reset: {rate:,.0f} steps/s; {count} agents step in {where}'
    )


def _describe_repeating(report: Report) -> str:
    text = f'gives the same again for {report.repeated} steps, to the last bit'
    if len(report.reset_seconds) > 1 and not report.starts_differ:
        text += '; every episode begins with the same observation'
    return text


def _describe_video(report: Report, config: AttrDict) -> str:
    modes = ', '.join(map(str, report.render_modes))
    obstacle = env_kinds.of(config).video_obstacle(config, report.render_modes)
    if obstacle:
        return f'render modes {modes or "none"}; {obstacle}'
    if 'rgb_array' in report.render_modes:
        return f'render modes {modes}'
    return f"render modes {modes or 'none'}; videos need 'rgb_array'"


def _describe_breach(breach: Breach) -> str:
    end = '' if breach.text.endswith(('.', '?', '!')) else '.'
    remedy = REMEDIES.get(breach.kind, '')
    return f'{_place(breach)}{breach.text}{end} {remedy}'.rstrip()


def _place(breach: Breach) -> str:
    """Format the place of the first occurrence of a violation."""
    if not breach.episode:
        return ''
    at = f'step {breach.step:,}' if breach.step else 'reset'
    times = f' ({breach.count:,} times)' if breach.count > 1 else ''
    return f'{at} of episode {breach.episode:,}{times}: '


def _list_network(report: Report, config: AttrDict) -> list[str]:
    """Describe the networks for the spaces."""
    observ_space, action_space = report.observation_space, report.action_space
    assert observ_space is not None and action_space is not None
    both = observ_space, action_space
    told = report.masked and choices.may_be_told(*both)
    if told and config.action_masks:  # As a training would observe it.
        observ_space = choices.observed_space(*both)
    try:
        return plan.describe_network(observ_space, action_space, config)
    except errors.UserError as error:
        return [f'{error}']


def _spread(numbers: Sequence[float]) -> str:
    """Format the mean and the range of numbers."""
    low, high = min(numbers), max(numbers)
    if low == high:
        return _number(low)
    return f'{_number(np.mean(numbers))} ({_number(low)} to {_number(high)})'


def _number(value: Any) -> str:
    """Format a number with three digits, or as an integer."""
    value = float(value)
    if not math.isfinite(value):
        return f'{value}'
    if abs(value) < 1e6 and (abs(value) >= 100 or value == round(value)):
        return f'{value:,.0f}'
    return f'{value:.3g}'


def _duration(seconds: Any) -> str:
    if seconds < 1e-3:
        return f'{1e6 * seconds:.3g} µs'
    return f'{1e3 * seconds:.3g} ms' if seconds < 1 else f'{seconds:.3g} s'
