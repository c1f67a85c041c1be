"""Trains a policy.

python -m agents.scripts.train --config=pendulum
"""

import argparse
import contextlib
import math
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agents import tools
from agents.scripts import (
    console,
    environments,
    interrupts,
    plan,
    run_directory,
    settings,
    utility,
)
from agents.tools import checkpoints, errors
from agents.tools.attr_dict import AttrDict
from agents.tools.restarts import Restarts

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.loop import Loop, Report, Score
    from agents.tools.saver import Saver


def train(
    config: AttrDict,
    logdir: str | pathlib.Path | None = None,
    env_processes: bool = True,
    say: console.Console | None = None,
    on_cancel: Callable[[Callable[[], None]], None] = lambda cancel: None,
    began: float | None = None,
) -> Iterator['Score']:
    """Train and evaluate in turn.

    Args:
        config: Settings, from a function of `agents.scripts.configs`.
        logdir: Directory of this run, for checkpoints and results; a run that
            it holds is resumed. By default nothing is written.
        env_processes: Whether environments have processes of their own.
        say: Where to tell what is going on, by default nowhere.
        on_cancel: Receives functions that end the training early: called by
            any thread, they have it saved and raise `Cancelled`.
        began: Time at which the run began, by `time.perf_counter`.

    Yields:
        Mean scores of the episodes since the last report, of training and of
        evaluation in turn. Each is a float that has a `report`.
    """
    began = time.perf_counter() if began is None else began
    phases = plan.make(config, environments.is_native(config))
    status = _Status(say or console.silent(), phases)
    status.say('plan', plan.describe(config, phases))
    restarts = Restarts(
        config.worker_restarts, lambda text: status.say('workers', text)
    )
    with contextlib.ExitStack() as stack:
        begun = False
        if logdir:
            # Environments may change the working directory.
            logdir = pathlib.Path(logdir).absolute()
            settings.require_plain(config)
            stack.enter_context(run_directory.locked(logdir))
            checkpoints.clear_up(logdir / utility.CHECKPOINTS)
            trained = run_directory.is_trained(logdir)
            begun = not trained and (logdir / settings.CONFIG_FILE).exists()
        envs = _start(config, env_processes, logdir, status, restarts)
        for env in envs:
            stack.callback(env.close)
            on_cancel(env.cancel)
        # So that a schedule ends when the training does.
        planned = config.copy(steps=phases.steps)
        graph = utility.define_simulation_graph(
            envs[0], envs[1], planned, phases.updates
        )
        loop = _define_loop(graph, config, phases, status, restarts, began)
        saver = None
        if logdir:
            variables = {**graph.variables, 'step': loop.step}
            saver = utility.define_saver(variables, logdir, place='step')
            restored = saver.restore(
                warn=lambda text: status.say('checkpoint', text)
            )
            _require_place(loop, restored, phases)
            # Not before, so that a mistake does not become part of the run.
            settings.save_config(config, logdir)
            utility.save_spaces(envs[0], logdir)
            loop.records = stack.enter_context(
                utility.define_records(logdir, loop.clock())
            )
        if begun:
            status.say('checkpoint', 'nothing had been saved')
        if not (loop.clock() and envs[0].compiled):
            graph.restart()
        status.begin(loop.clock())
        yield from _run(loop, saver, phases, status)


def _run(
    loop: 'Loop', saver: 'Saver | None', phases: plan.Plan, status: '_Status'
) -> Iterator['Score']:
    """Run the loop; however that ends, what has been learnt is saved."""
    failure: BaseException | None = None
    try:
        for score in loop.run(saver, phases.last_step):
            status.report(score.report)
            yield score
    except (errors.Cancelled, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        failure = error
        raise
    finally:
        try:
            if saver and loop.clock():
                saver.save(loop.clock())
        except errors.UserError as error:
            if failure is None:
                raise
            # Said rather than raised, which would hide what went wrong first.
            status.say('checkpoint', str(error))


def _start(
    config: AttrDict,
    env_processes: bool,
    logdir: str | pathlib.Path | None,
    status: '_Status',
    restarts: Restarts,
) -> list[Any]:
    """Start the environments for training and for evaluation.

    Their processes start while TensorFlow is imported, which takes longer.
    Those of a resumed run go through other episodes than those of its start.
    """
    if environments.is_native(config):
        status.say('tensorflow', 'importing')
        utility.use_threads(config)
        return utility.define_native_batch_envs(config)
    constructor = environments.constructor(config)
    session = utility.last_checkpoint(logdir) or 0
    if env_processes:
        counts = config.num_agents, config.eval_episodes
        environments.require_descriptors(counts, config.num_workers)
    envs = [
        environments.start(
            constructor,
            count,
            env_processes,
            config.num_workers,
            (config.seed, purpose, session),
            config.worker_timeout,
        )
        for purpose, count in (
            (environments.TRAIN, config.num_agents),
            (environments.EVAL, config.eval_episodes),
        )
    ]
    status.say('tensorflow', 'importing')
    utility.use_threads(config)
    batches = []
    with contextlib.ExitStack() as stack:
        for each in envs:
            batch = tools.BatchEnv(
                each, timeout=config.worker_timeout, restarts=restarts
            )
            batches.append(batch)
            stack.callback(batch.close)
        stack.pop_all()
    if env_processes:
        status.say(
            'workers',
            f'{len(envs[0])} for training and {len(envs[1])} for evaluation up',
        )
    return [tools.InGraphBatchEnv(batch) for batch in batches]


def _define_loop(
    graph: AttrDict,
    config: AttrDict,
    phases: plan.Plan,
    status: '_Status',
    restarts: Restarts,
    began: float,
) -> 'Loop':
    def counts() -> dict[str, float]:
        return {'restarts': restarts.count} if restarts.budget else {}

    loop = tools.Loop(progress=status.progress, began=began)
    loop.add_phase(
        'train',
        graph.train,
        batch_size=phases.call,
        steps=phases.train,
        report_every=phases.train,
        log_every=max(phases.call, phases.train // 2),
        summary=graph.algo.summary,
        counts=counts,
    )
    loop.add_phase(
        'eval',
        graph.eval,
        batch_size=phases.evaluation,
        steps=phases.evaluation,
        report_every=phases.evaluation,
        checkpoint_every=config.checkpoint_every * phases.evaluation,
        counts=counts,
    )
    return loop


def _require_place(
    loop: 'Loop', restored: int | None, phases: plan.Plan
) -> None:
    """Keep the training step where the phases have changed their sizes."""
    if restored is not None and loop.clock() != restored:
        cycles, within = divmod(restored, phases.train)
        whole = cycles * (phases.train + phases.evaluation)
        loop.step.assign(whole + within)


class _Status:
    """Tells how the training is going on."""

    def __init__(self, say: console.Console, phases: plan.Plan):
        self.say = say.say
        self._live = say.live
        self._phases = phases
        self._calls = 0
        self._trained = math.nan
        self._rate = math.nan

    def begin(self, step: int) -> None:
        """The loop starts to run at a training step."""
        where = f'resumed at step {step:,}' if step else 'from the beginning'
        self.say('train', f'{where}; tracing and compiling')
        self._first = self._started = time.perf_counter()
        self._first_step = step

    def progress(self, phase: str, step: int) -> None:
        """A call of an operation is over."""
        now = time.perf_counter()
        self._calls += 1
        if self._calls == 1:
            self.say('', f'compiled in {now - self._first:.1f} s')
            self._started, self._first_step = now, step
        self._live('train', self._position(step))

    def report(self, report: 'Report') -> None:
        """Scores are known."""
        if report.phase == 'train':
            self._trained = report.score
            self._rate = report.steps_per_second
        else:
            nothing = math.isnan(self._trained)  # No episode has ended yet.
            trained = '-' if nothing else f'{self._trained:.1f}'
            rate = f'{self._rate:,.0f} steps/s' if self._rate > 0 else ''
            self.say(
                'train',
                f'{self._position(report.step)}  train {trained}  '
                f'eval {report.score:.1f}  {rate}'.rstrip(),
            )

    def _position(self, step: int) -> str:
        elapsed = time.perf_counter() - self._started
        total, done = self._phases.steps, step - self._first_step
        text = f'step {step:,} ({step / total:.0%})'
        if not done or step >= total:
            return text
        left = elapsed * (total - step) / done
        return f'{text}  {console.duration(left)} left'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    options = _parse(arguments)
    terminal = console.on_terminal()
    directory = None
    with interrupts.Interrupts() as signals, contextlib.ExitStack() as stack:
        try:
            directory, config = _open(options, terminal, stack)
            for _ in train(
                config,
                directory,
                options.env_processes,
                terminal,
                signals.call,
                console.process_start(),
            ):
                pass
        except errors.Cancelled:
            terminal.say('stopped', _saved(options, directory))
            return 128 + (signals.signal or 0)
        except errors.UserError as error:
            print(f'error: {error}', file=sys.stderr)
            step = _last_checkpoint(directory)
            if directory and step is not None:
                name = _as_given(options, directory)
                what = f'{name} has a checkpoint of step {step:,}'
                terminal.say('stopped', f'{what}; give its timestamp to go on')
            return 1
    name = _as_given(options, directory)
    terminal.say('done', f'see tensorboard --logdir {name}')
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m agents.scripts.train',
        description='Train a policy.',
        epilog=f'Configs: {", ".join(settings.config_names())}.',
    )
    parser.add_argument(
        '--config',
        required=True,
        help='a name from configs.py, or file.py:function',
    )
    parser.add_argument(
        '--logdir', default='./logdir', help='directory of all runs (./logdir)'
    )
    parser.add_argument(
        '--timestamp', help='names the run; that of an existing one resumes it'
    )
    parser.add_argument('--seed', type=int, help='seed of everything random')
    settings.add_set(parser)
    settings.add_env_processes(parser)
    options = parser.parse_args(arguments)
    # Environments may change the working directory.
    options.home = pathlib.Path(options.logdir).absolute()
    return options


def _open(
    options: argparse.Namespace,
    terminal: console.Console,
    stack: contextlib.ExitStack,
) -> tuple[pathlib.Path, AttrDict]:
    """The directory of the run and its settings, told on the terminal."""
    config = written = settings.find_config(options.config)()
    name = options.config.rpartition(':')[2]
    overrides = [*options.set]
    if options.seed is not None:
        overrides.append(f'seed={options.seed}')
    directory, resumed = None, False
    if options.timestamp:
        directory = options.home / f'{options.timestamp}-{name}'
        resumed = run_directory.is_run(directory)
    if directory and resumed:
        config = settings.restored(config, directory, overrides)
    changed = settings.override(config, overrides)
    if directory is None:
        directory = stack.enter_context(
            run_directory.claimed(options.home, name)
        )
    given = _as_given(options, directory)
    terminal.say('agents', f'{name}: {_title(changed)}, seed {changed.seed}')
    terminal.say('run', f'{given} ({"resumed" if resumed else "new"})')
    if options.timestamp and not resumed:
        terminal.say('', f'no run has the timestamp {options.timestamp} yet')
    for key in config:
        if resumed and config[key] != changed[key]:
            terminal.say('', f'{key}: {config[key]} → {changed[key]}')
        elif resumed and config[key] != written[key]:
            kept = f'{key}: {config[key]} as before, not {written[key]}'
            terminal.say('', f'{kept}; --set changes it')
    return directory, changed


def _as_given(
    options: argparse.Namespace, directory: pathlib.Path
) -> pathlib.Path:
    """The directory of a run as the user has named the one it is in."""
    return pathlib.Path(options.logdir) / directory.relative_to(options.home)


def _last_checkpoint(directory: pathlib.Path | None) -> int | None:
    with contextlib.suppress(errors.UserError):  # It was told already.
        return utility.last_checkpoint(directory)
    return None


def _saved(options: argparse.Namespace, directory: pathlib.Path | None) -> str:
    """What there is to go on from."""
    if directory is None:
        return 'nothing was begun'
    saved = _last_checkpoint(directory) is not None
    what = 'is saved' if saved else 'has learnt nothing yet'
    name = _as_given(options, directory)
    return f'{name} {what}; give its timestamp to go on'


def _title(config: AttrDict) -> str:
    env = getattr(config.env, '__name__', config.env)
    return f'{config.algorithm.upper()} on {env}'


if __name__ == '__main__':
    sys.exit(main())
