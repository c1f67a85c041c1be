"""Trains a policy.

python -m agents.scripts.train --config=pendulum
"""

import argparse
import contextlib
import functools
import pathlib
import signal
import sys
import time
import warnings
from collections.abc import (
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any

if __name__ == '__main__':  # Before what takes long to import.
    from agents.scripts import interrupts

    interrupts.end_silently()

from agents import tools
from agents.algorithms import sizes
from agents.scripts import (
    agreement,
    batches,
    checks,
    config_file,
    config_names,
    console,
    env_setup,
    info_means,
    interrupts,
    launcher,
    options,
    overrides,
    plan,
    run_directory,
    settings,
    settings_text,
    utility,
    vectors,
)
from agents.scripts.status import Status
from agents.tools import choices, errors, world
from agents.tools.attr_dict import AttrDict
from agents.tools.envs.restarts import Restarts
from agents.tools.runs import checkpoints
from agents.tools.world import World

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.runs.loop import Loop, Score

# Share of the time that histograms may take, and that checkpoints may take.
REPORTING_SHARE = 0.02


def train(
    config: AttrDict,
    logdir: str | pathlib.Path | None = None,
    env_processes: bool | None = None,
    say: console.Console | None = None,
    signals: interrupts.Interrupts | None = None,
    began: float | None = None,
) -> 'Training':
    """Train and evaluate in turn.

    Args:
        config: Settings, from a function of `agents.scripts.configs`.
        logdir: Directory of this run, for checkpoints and results; a run that
            it holds is resumed. By default nothing is written.
        env_processes: Whether environments have processes of their own; by
            default where that is quicker.
        say: Where to tell what is going on, by default nowhere.
        signals: Where signals are heard, by default nowhere.
        began: Time at which the run began, by `time.perf_counter`.

    Returns:
        Iterator of mean scores of the episodes since the last report, of
        training and of evaluation in turn. Each is a float that has a
        `report`. The training takes place while it is iterated over.
    """
    ranks = world.connect()
    require_valid(config, ranks.size)
    began = time.perf_counter() if began is None else began
    phases = plan.make(config, env_setup.is_native(config))
    signals = signals or interrupts.Interrupts(ranks=ranks)
    shown = say if say and ranks.is_first else console.silent()
    status = Status(shown, signals, phases)
    return Training(_train(config, logdir, env_processes, status, began, ranks))


class Training(Iterator['Score']):
    """Trains while it is iterated over."""

    def __init__(self, scores: Generator['Score', None, None]):
        self._scores = scores
        self._used = False

    def __next__(self) -> 'Score':
        self._used = True
        return next(self._scores)

    def close(self) -> None:
        """Save what has been learnt, and end the training."""
        self._used = True
        self._scores.close()

    def __del__(self) -> None:
        if not self._used:
            warnings.warn(
                'Nothing was trained, as nobody asked for the scores; write '
                '`for score in agents.train(...)`.',
                stacklevel=2,
            )


def require_valid(config: AttrDict, ranks: int = 1) -> None:
    """Refuse what no training can be started with, before anything is."""
    checks.require_settings(config, ranks)
    if vectors.is_vector(config):
        vectors.require(config)
    else:
        env_setup.require(config)


def _train(
    config: AttrDict,
    logdir: str | pathlib.Path | None,
    env_processes: bool | None,
    status: Status,
    began: float,
    ranks: World,
) -> Generator['Score', None, None]:
    phases = status.phases
    status.say('plan', plan.describe(config, phases, ranks.size))
    # Environments may change the working directory.
    logdir = pathlib.Path(logdir).absolute() if logdir else None
    agreement.come_together(ranks, config, logdir, status.say)
    saved = ranks.share(logdir is not None)
    logdir = logdir if ranks.is_first else None
    mine = sizes.share(config, ranks.size)
    restarts = Restarts(
        config.worker_restarts, lambda text: status.say('workers', text)
    )
    with contextlib.ExitStack() as stack:
        begun = logdir is not None and _take_directory(logdir, config, stack)
        session = ranks.share(utility.last_checkpoint(logdir) or 0)
        envs = batches.start(
            mine, env_processes, session, status, restarts, ranks
        )
        for env in envs:
            stack.callback(env.close)
            if ranks.size == 1:  # Others would wait for this one.
                status.signals.call(env.cancel)
        agreement.require_same_spaces(ranks, envs[0])
        both = envs[0].observation_space, envs[0].action_space
        for number, line in enumerate(plan.describe_network(*both, config)):
            status.say('' if number else 'network', line)
        stack.enter_context(tools.programs.afresh())
        # So that a schedule ends when the training does.
        planned = mine.copy(steps=phases.steps)
        graph = utility.define_simulation_graph(
            envs[0], envs[1], planned, phases.updates, ranks
        )

        def keep() -> None:
            """Make the files of the run.

            Not before something has been done, so that neither a mistake nor
            an environment that does not work leaves or changes any.
            """
            if logdir and not loop.records:
                config_file.save_config(config, logdir)
                utility.save_spaces(envs[0], logdir)
                columns = info_means.columns(config.log_info)
                loop.records = stack.enter_context(
                    utility.define_records(logdir, loop.clock(), columns)
                )

        loop = _define_loop(graph, config, status, restarts, began, keep, ranks)
        if logdir:
            _require_same_spaces(envs[0], logdir)
        saver = _restore(graph, loop, status, logdir, ranks) if saved else None
        if begun:
            status.say('checkpoint', 'nothing had been saved')
        if int(loop.step) >= phases.last_step:
            status.complete(loop.clock())
            return
        if not (loop.clock() and envs[0].native):
            graph.restart()
        status.begin(loop.clock())
        yield from _run(loop, saver, status, envs[0].native, ranks)


def _take_directory(
    logdir: pathlib.Path, config: AttrDict, stack: contextlib.ExitStack
) -> bool:
    """Keep others from the directory of a run, and look what is in there.

    Returns:
        Whether a run was begun there that has saved nothing.
    """
    config_file.require_plain(config)
    stack.enter_context(run_directory.locked(logdir))
    checkpoints.clear_up(logdir / utility.CHECKPOINTS)
    if run_directory.is_trained(logdir):
        config_file.require_same_sizes(config, logdir)
        utility.require_room(logdir, sizes.count_weights(config))
        return False
    return (logdir / config_file.CONFIG_FILE).exists()


def _restore(
    graph: utility.SimulationGraph,
    loop: 'Loop',
    status: Status,
    logdir: pathlib.Path | None,
    ranks: World,
) -> Any:
    """Make the saver of a run, and set all to the last checkpoint."""
    variables = {**graph.variables, 'step': loop.step}
    saver = utility.define_shared_saver(
        variables,
        graph.of_agents,
        logdir,
        ranks,
        lambda: agreement.require_same_weights(ranks, graph.learnt()),
    )
    restored = saver.restore(warn=lambda text: status.say('checkpoint', text))
    _require_place(loop, restored, status.phases)
    return saver


def _run(
    loop: 'Loop', saver: Any, status: Status, native: bool, ranks: World
) -> Generator['Score', None, None]:
    """Run the loop; however that ends, what has been learnt is saved.

    Args:
        loop: The loop.
        saver: Saves checkpoints.
        status: Where to tell what is going on.
        native: Whether checkpoints hold environments too. These have gone on
            when something failed, so that the last checkpoint has to do.
        ranks: Those that run it. When something failed, others may have gone
            on as well, and when one was interrupted alone.
    """
    failure: BaseException | None = None
    alone = ranks.size == 1
    try:
        for score in loop.run(saver, status.phases.last_step):
            status.report(score.report)
            yield score
    except (errors.Cancelled, GeneratorExit):
        raise
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        if not (stopped and (alone or status.signals.agreed)):
            failure = error
        raise
    finally:
        status.signals.disarm()
        try:
            resumable = not failure or (alone and not native)
            if saver and loop.clock() and resumable:
                saver.save(loop.clock())
        except errors.UserError as error:
            if failure is None:
                raise
            # Said rather than raised, which would hide what went wrong first.
            status.say('checkpoint', str(error))


def _define_loop(
    graph: utility.SimulationGraph,
    config: AttrDict,
    status: Status,
    restarts: Restarts,
    began: float,
    keep: Callable[[], None],
    ranks: World,
) -> 'Loop':
    """Make the loop; `keep` is called when something has been done."""

    means = info_means.InfoMeans(
        config.log_info, graph.batch_envs, status.say, ranks
    )

    def counts(phase: str) -> dict[str, float]:
        numbers = means.take(phase)
        if restarts.budget:
            numbers['restarts'] = sum(ranks.gather(restarts.count))
        return numbers

    def keep_alike() -> None:
        agreement.require_same_weights(ranks, graph.learnt())
        keep()

    phases = status.phases
    loop = tools.Loop(
        progress=status.progress,
        during=status.during,
        began=began,
        share=REPORTING_SHARE,
        decide=ranks.share,
    )
    loop.add_phase(
        'train',
        _follow(graph.train, keep),
        batch_size=phases.call,
        steps=phases.train,
        report_every=phases.train,
        log_every=max(phases.call, phases.train // 2),
        summary=graph.algo.summary,
        counts=functools.partial(counts, 'train'),
    )
    loop.add_phase(
        'eval',
        _follow(graph.eval, keep_alike),
        batch_size=phases.evaluation,
        steps=phases.evaluation,
        report_every=phases.evaluation,
        checkpoint_every=config.checkpoint_every * phases.evaluation,
        counts=functools.partial(counts, 'eval'),
    )
    return loop


def _follow(
    operation: Callable[[], Any], action: Callable[[], None]
) -> Callable[[], Any]:
    """Make an operation that an action follows."""

    def operate() -> Any:
        results = operation()
        action()
        return results

    return operate


def _require_same_spaces(batch_env: Any, logdir: str | pathlib.Path) -> None:
    """Refuse to go on in an environment of another kind."""
    if not (pathlib.Path(logdir) / utility.SPACES).exists():
        return
    found = batch_env.observation_space, batch_env.action_space
    learnt = utility.load_spaces(logdir)
    for kind, new, old in zip(
        ('observations', 'actions'), found, learnt, strict=True
    ):
        if new != old:
            masks = [choices.has_mask(*pair) for pair in (found, learnt)]
            setting = 'env' if masks[0] == masks[1] else 'action_masks'
            raise errors.ConfigError(
                f'The environment has {kind} of {new}, where {logdir} has '
                f'learnt with {old}. Leave {setting} as it was, or begin a new '
                'run.'
            )


def _require_place(
    loop: 'Loop', restored: int | None, phases: plan.Plan
) -> None:
    """Keep the training step where the phases have changed their sizes."""
    if restored is not None and loop.clock() != restored:
        cycles, within = divmod(restored, phases.train)
        whole = cycles * (phases.train + phases.evaluation)
        loop.step.assign(whole + within)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)
    if given.settings:
        return _print_settings(given)
    try:
        ranks = world.connect()
        if given.nprocs not in (None, ranks.size):
            return _start_ranks(given, ranks, arguments)
    except errors.UserError as error:
        if world.guess_rank() == 0:
            console.complain(str(error))
        return 1
    code, alone = _train_as_asked(given, ranks)
    if alone:
        ranks.abort(code)
    return code


def _train_as_asked(
    given: argparse.Namespace, ranks: World
) -> tuple[int, bool]:
    """Train; returns the exit code and whether other ranks know nothing."""
    directory = None
    with (
        interrupts.Interrupts('saving', ranks) as signals,
        console.on_terminal(ranks.is_first) as terminal,
        contextlib.ExitStack() as stack,
    ):
        try:
            directory, config = _open(given, terminal, stack, ranks)
            unused = functools.partial(run_directory.remove_unused, directory)
            signals.call_last(unused)
            scores = train(
                config,
                directory,
                given.env_processes,
                terminal,
                signals,
                console.process_start(),
            )
            with contextlib.closing(scores):
                for _ in scores:
                    pass
        except (Exception, KeyboardInterrupt) as error:
            shown = directory and _as_given(given, directory)
            if not signals.agreed:
                late = isinstance(error, errors.ElsewhereError)
                ranks.wait_for_turn(late)
            code = _end(error, directory, shown, terminal, signals)
            return code, not signals.agreed
    name = _as_given(given, directory)
    terminal.say('done', f'see tensorboard --logdir {name}')
    return 0, False


def _end(
    error: BaseException,
    directory: pathlib.Path | None,
    shown: pathlib.Path | None,
    terminal: console.Console,
    signals: interrupts.Interrupts,
) -> int:
    """Tell why the training ended early; returns the exit code.

    Args:
        error: What ended it.
        directory: Directory of the run, if there is one already.
        shown: How the user calls it.
        terminal: Where to tell.
        signals: The signal that ended it, if one did.
    """
    stopped = isinstance(error, (errors.Cancelled, KeyboardInterrupt))
    mistake = isinstance(error, errors.UserError) and not stopped
    # What is interrupted while it is imported may raise anything.
    if not (stopped or mistake or signals.signal):
        raise error
    signals.disarm()
    step = _last_checkpoint(directory)
    if mistake:
        console.complain(str(error))
        if step is not None:
            what = f'{shown} has a checkpoint of step {step:,}'
            terminal.say('stopped', f'{what}; give its timestamp to go on')
        return 1
    saved = f'{shown} is saved; give its timestamp to go on'
    nothing = 'before anything was learnt'
    terminal.say('stopped', nothing if step is None else saved)
    return 128 + (signals.signal or signal.SIGINT)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='python -m agents.scripts.train',
        description='Train a policy.',
        epilog=f'Configs: {", ".join(config_names.list_configs())}.',
        settings=settings.SETTINGS,
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
        '--timestamp',
        metavar='NAME',
        help='name of the run instead of the time; one that exists is resumed',
    )
    parser.add_argument('--seed', type=int, help='seed of everything random')
    parser.add_set()
    parser.add_argument(
        '--settings',
        action='store_true',
        help='print all settings of the config with their meanings and end',
    )
    parser.add_env_processes()
    parser.add_ranks()
    given = parser.parse(arguments)
    # Environments may change the working directory.
    given.home = pathlib.Path(given.logdir).absolute()
    return given


def _start_ranks(
    given: argparse.Namespace,
    ranks: World,
    arguments: Sequence[str] | None,
) -> int:
    """Run the command on several ranks; returns the exit code."""
    if given.nprocs < 1:
        raise errors.ConfigError(
            f'--nprocs has to be 1 or more, not {given.nprocs}.'
        )
    if ranks.size > 1:
        raise errors.ConfigError(
            f'A launcher has started {ranks.size} ranks, where --nprocs asks '
            f'for {given.nprocs}. Leave out one of both.'
        )
    # So that a mistake is told at once, and once.
    written = config_names.find_config(given.config)()
    _, changed = _change_settings(given, written, *_find_run(given))
    require_valid(changed, given.nprocs)
    as_given = sys.argv[1:] if arguments is None else arguments
    try:
        return launcher.run(given.nprocs, 'agents.scripts.train', as_given)
    finally:
        run_directory.remove_abandoned(given.home, _config_name(given))


def _open(
    given: argparse.Namespace,
    terminal: console.Console,
    stack: contextlib.ExitStack,
    ranks: World,
) -> tuple[pathlib.Path, AttrDict]:
    """The directory of the run and its settings, told on the terminal."""
    written = config_names.find_config(given.config)()
    directory, saved = _name_run(given), None
    if ranks.is_first:
        directory, saved = _find_run(given)
    # Other machines need not see the files of this one.
    saved = ranks.share(saved)
    config, changed = _change_settings(given, written, directory, saved)
    require_valid(changed, ranks.size)
    name = _config_name(given)
    if directory is None and ranks.is_first:
        directory = stack.enter_context(run_directory.claimed(given.home, name))
    directory = given.home / ranks.share(directory and directory.name)
    terminal.say('agents', f'{name}: {_title(changed)}, seed {changed.seed}')
    new = f'new run named {given.timestamp}' if given.timestamp else 'new'
    shown = _as_given(given, directory)
    terminal.say('run', f'{shown} ({new if saved is None else "resumed"})')
    if saved is not None:
        _tell_differences(config, changed, written, terminal)
    return directory, changed


def _tell_differences(
    config: AttrDict,
    changed: AttrDict,
    written: AttrDict,
    terminal: console.Console,
) -> None:
    """Tell which settings of a run are changed, and which are kept.

    Args:
        config: The settings as the run has them.
        changed: The settings as they are changed.
        written: The settings of the config that it is resumed with.
        terminal: Where to tell.
    """
    for key in config:
        old, new, other = [
            settings_text.format_value(settings[key])
            for settings in (config, changed, written)
        ]
        if config[key] != changed[key]:
            terminal.say('', f'{key}: {old} → {new}')
        elif config[key] != written[key]:
            kept = f'{key}: {old} as before, not {other}'
            terminal.say('', f'{kept}; --set changes it')


def _print_settings(given: argparse.Namespace) -> int:
    """Print the settings that a training would have; returns the exit code."""
    terminal = console.on_terminal()
    try:
        written = config_names.find_config(given.config)()
        _, changed = _change_settings(given, written, *_find_run(given))
        checks.require_settings(changed)
        config_file.require_plain(changed)
        terminal.print(settings_text.format_columns(changed, terminal.width))
    except errors.UserError as error:
        console.complain(str(error))
        return 1
    return 0


def _name_run(given: argparse.Namespace) -> pathlib.Path | None:
    """The directory that a timestamp names."""
    if not given.timestamp:
        return None
    return given.home / f'{given.timestamp}-{_config_name(given)}'


def _find_run(
    given: argparse.Namespace,
) -> tuple[pathlib.Path | None, AttrDict | None]:
    """The directory that a timestamp names, and the settings of its run."""
    directory = _name_run(given)
    if directory is None or not run_directory.is_run(directory):
        return directory, None
    return directory, config_file.load_config(directory)


def _change_settings(
    given: argparse.Namespace,
    config: AttrDict,
    directory: pathlib.Path | None,
    saved: Mapping[str, Any] | None,
) -> tuple[AttrDict, AttrDict]:
    """Settings as a run that is resumed has them, and as they are changed.

    Args:
        given: The options.
        config: The settings of the config.
        directory: Directory of the run.
        saved: What its file of settings holds, if it is resumed.
    """
    changes = [*given.set]
    if given.seed is not None:
        changes.append(f'seed={given.seed}')
    if directory and saved is not None:
        config = config_file.restore_config(
            config, directory, changes, saved=saved
        )
    return config, overrides.apply(config, changes)


def _config_name(given: argparse.Namespace) -> str:
    return given.config.rpartition(':')[2]


def _as_given(
    given: argparse.Namespace, directory: pathlib.Path
) -> pathlib.Path:
    """The directory of a run as the user has named the one it is in."""
    return pathlib.Path(given.logdir) / directory.relative_to(given.home)


def _last_checkpoint(directory: pathlib.Path | None) -> int | None:
    with contextlib.suppress(errors.UserError):  # It was told already.
        return utility.last_checkpoint(directory)
    return None


def _title(config: AttrDict) -> str:
    env = getattr(config.env, '__name__', config.env)
    title = f'{config.algorithm.upper().replace("_", " ")} on {env}'
    if config.demonstrations is None:
        return title
    shown = settings_text.format_value(config.demonstrations)
    return f'{title}, as shown in {shown}'


if __name__ == '__main__':
    sys.exit(main())
