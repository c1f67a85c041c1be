"""Training: environments, an algorithm and the loop of their phases."""

import contextlib
import functools
import pathlib
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

from agents import tools
from agents.config import checks, plain_yaml, render, sizes, store
from agents.config.settings import use_whole_numbers
from agents.terminal import console, interrupts
from agents.tools import errors, world
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import checkpoints
from agents.tools.workers.restarts import Restarts
from agents.tools.world import World
from agents.training import (
    agreement,
    batches,
    beginning,
    calling,
    env_setup,
    info_means,
    plan,
    run_directory,
    simulation_graph,
    storage,
    vectors,
)
from agents.training.status import Status

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.runs.loop import Loop, Score
    from agents.tools.runs.records import Records
    from agents.training.callbacks import Callback

# Share of the time that histograms may take, and that checkpoints may take.
REPORTING_SHARE = 0.02


def train(
    config: AttrDict,
    logdir: str | pathlib.Path | None = None,
    env_processes: bool | None = None,
    say: console.Console | None = None,
    signals: interrupts.Interrupts | None = None,
    began: float | None = None,
    callbacks: 'Sequence[Callback | str]' = (),
    begin_from: str | pathlib.Path | None = None,
) -> 'Training':
    """Train and evaluate in turn.

        agents.train(config, 'runs/pendulum').run()

    trains to the end. To see how it goes, iterate over it instead:

        for score in agents.train(config, 'runs/pendulum'):
            print(score.report.phase, score.report.step, score)

    Args:
        config: Settings, from a function of `agents.scripts.configs`.
        logdir: Directory of this run, for checkpoints and results; a run that
            it holds is resumed. By default nothing is written.
        env_processes: Whether environments have processes of their own; by
            default where that is quicker.
        say: Where to tell what is going on, by default nowhere.
        signals: Where signals are heard, by default nowhere.
        began: Time at which the run began, by `time.perf_counter`.
        callbacks: Functions that are called with every report, after those of
            the setting of this name, see `agents.callbacks`.
        begin_from: Directory of another run, with whose weights and statistics
            a new one begins, as by the setting of this name. It may end with
            `@` and a training step or `best`; by default it is the last.

    Returns:
        Iterator of mean scores of the episodes since the last report, of
        training and of evaluation in turn. Each is a float that has a
        `report`. The training takes place while it is iterated over or run.
    """
    ranks = world.connect()
    if begin_from is not None:
        config = config.copy(begin_from=str(begin_from))
    config = use_whole_numbers(config)
    require_valid(config, ranks.size)
    began = time.perf_counter() if began is None else began
    phases = plan.make(config, env_setup.is_native(config))
    signals = signals or interrupts.Interrupts(ranks=ranks)
    shown = say if say and ranks.is_first else console.silent()
    status = Status(shown, signals, phases)
    called = calling.Calling(
        calling.find([*config.callbacks, *callbacks]), ranks
    )
    scores = _train(config, logdir, env_processes, status, began, ranks, called)
    return Training(scores, logdir)


class Training(Iterator['Score']):
    """Trains while it is iterated over, or run.

    Args:
        scores: Trains while it is iterated over.
        logdir: Directory of the run.
    """

    def __init__(
        self,
        scores: Generator['Score', None, None],
        logdir: str | pathlib.Path | None = None,
    ):
        self._scores = scores
        self._logdir = logdir
        self._begun = self._over = False
        self._last: Score | None = None

    def run(self) -> 'Score | None':
        """Train to the end.

        Returns:
            The score of the last evaluation, a float that has a `report`; None
            if there was nothing left to do.
        """
        last = None
        with contextlib.closing(self):
            for score in self:
                if score.report.phase == 'eval':
                    last = score
        return last

    def __next__(self) -> 'Score':
        self._begun = True
        try:
            self._last = next(self._scores)
        except BaseException:
            self._over = True
            raise
        return self._last

    def close(self) -> None:
        """Save what has been learnt, and end the training."""
        self._begun = self._over = True
        self._scores.close()

    def __repr__(self) -> str:
        name = (
            f'Training in {str(self._logdir)!r}'
            if self._logdir
            else ('Training that writes nothing')
        )
        if not self._begun:
            return (
                f'<{name}, not begun: call its run(), or iterate over it to '
                'see the scores>'
            )
        where = 'at its beginning'
        if self._last is not None:
            where = f'at step {self._last.report.step:,}'
        return f'<{name}, {"ended" if self._over else "under way"} {where}>'

    def __del__(self) -> None:
        if not self._begun:
            warnings.warn(
                'Nothing was trained, as nobody asked for it; write '
                '`agents.train(...).run()`, or `for score in '
                'agents.train(...)` to see the scores.',
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
    called: calling.Calling,
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
        session = ranks.share(storage.last_checkpoint(logdir) or 0)
        config, source = _find_source(config, logdir, session, status, ranks)
        envs = batches.start(
            mine, env_processes, session, status, restarts, ranks
        )
        for env in envs:
            stack.callback(env.close)
            if ranks.size == 1:  # Others would wait for this one.
                status.signals.call(env.cancel)
        agreement.require_same_spaces(ranks, envs[0])
        both = envs[0].observation_space, envs[0].action_space
        plan.require_room(*both, mine)
        for number, line in enumerate(plan.describe_network(*both, config)):
            status.say('' if number else 'network', line)
        stack.enter_context(tools.programs.afresh())
        # So that a schedule ends when the training does.
        planned = mine.copy(steps=phases.steps)
        graph = simulation_graph.define_simulation_graph(
            envs[0],
            envs[1],
            planned,
            one_program=phases.rollouts_at_once is not None,
            ranks=ranks,
        )

        def keep() -> None:
            # Not before something has been done, so that neither a mistake nor
            # an environment that does not work leaves or changes any.
            if logdir and not loop.records:
                records = _make_files(logdir, config, envs[0], loop.clock())
                loop.records = stack.enter_context(records)

        loop = _define_loop(
            graph, config, status, restarts, began, keep, ranks, called
        )
        if logdir and (logdir / storage.SPACES).exists():
            storage.require_same_spaces(envs[0], logdir, 'begin a new run')
        saver = (
            _restore(graph, loop, config, status, logdir, ranks)
            if saved
            else None
        )
        if begun:
            status.say('checkpoint', 'nothing had been saved')
        if source:
            otherwise = 'do not begin from it'
            storage.require_same_spaces(envs[0], source.directory, otherwise)
        if config.begin_from is not None and not session:
            beginning.take(source, graph, config, ranks, status.say)
        if loop.is_complete():
            if logdir:
                store.renew_signature(config, logdir)
            status.complete(loop.clock())
            _tell_best(saver, status)
            return
        if not (loop.clock() and envs[0].keeps_state):
            graph.restart()
        status.begin(loop.clock())
        yield from _run(loop, saver, status, envs[0].keeps_state, ranks, called)


def _take_directory(
    logdir: pathlib.Path, config: AttrDict, stack: contextlib.ExitStack
) -> bool:
    """Keep others from the directory of a run, and look what is in there.

    Returns:
        Whether a run was begun there that has saved nothing.
    """
    store.require_plain(config)
    stack.enter_context(run_directory.locked(logdir))
    checkpoints.clear_up(logdir / storage.CHECKPOINTS)
    if run_directory.is_trained(logdir):
        store.require_same_sizes(config, logdir)
        storage.require_room(logdir, sizes.count_weights(config))
        return False
    return (logdir / store.CONFIG_FILE).exists()


def _make_files(
    logdir: pathlib.Path, config: AttrDict, batch_env: Any, step: int
) -> 'contextlib.AbstractContextManager[Records]':
    """Write what a run is of, and open its results behind a training step."""
    store.save_config(config, logdir)
    storage.save_spaces(batch_env, logdir)
    columns = info_means.columns(config.log_info)
    return storage.define_records(
        logdir,
        step,
        columns,
        settings=render.as_hyperparameters(config),
        text=render.as_markdown(config),
    )


def _find_source(
    config: AttrDict,
    logdir: pathlib.Path | None,
    session: int,
    status: Status,
    ranks: World,
) -> tuple[AttrDict, beginning.Source | None]:
    """What a run begins from, and its settings, in which that is written down.

    Args:
        config: Its settings.
        logdir: Its directory, if it has one.
        session: Step of its own last checkpoint, from which it goes on then.
        status: Where to tell what is going on.
        ranks: Those that run it, of which the first alone looks for files.
    """
    if session:
        return beginning.go_on(config, logdir) if logdir else config, None
    if not ranks.is_first:
        return config, None
    source = beginning.find(config, lambda text: status.say('begin', text))
    return config.copy(begin_from=source and source.name), source


def _restore(
    graph: simulation_graph.SimulationGraph,
    loop: 'Loop',
    config: AttrDict,
    status: Status,
    logdir: pathlib.Path | None,
    ranks: World,
) -> Any:
    """Make the saver of a run, and set all to the last checkpoint."""
    saver = storage.define_shared_saver(
        graph,
        loop.step,
        logdir,
        config.keep_checkpoints,
        ranks,
        lambda: agreement.require_same_weights(ranks, graph.learnt()),
    )
    try:
        tell = functools.partial(status.say, 'checkpoint')
        restored = saver.restore(warn=tell)
    except errors.MisfitError as error:
        if not callable(config.network):
            raise
        raise _explain(error, config) from None
    if saver.best:
        status.best = saver.best.score
    if restored is not None:
        if restored != loop.clock():  # An older version counted otherwise.
            loop.set_clock(restored)
        # Sizes may have changed; schedules follow the training steps.
        graph.count_on(-(-restored // status.phases.rollout))
    if restored is not None and saver.anew:
        _begin_anew(graph, loop, saver.anew, config, status)
    return saver


def _explain(error: errors.MisfitError, config: AttrDict) -> errors.ConfigError:
    """Say that it is a function of the user's that makes other networks.

    Settings that make others have been looked at before.
    """
    network = plain_yaml.simplify(config.network)
    text, _, _ = str(error).partition(':')
    return errors.ConfigError(
        f'{text}: network={network} makes networks of other sizes than those '
        'that it holds. Leave network as it was, or begin a new run.'
    )


def _begin_anew(
    graph: simulation_graph.SimulationGraph,
    loop: 'Loop',
    anew: Mapping[str, int],
    config: AttrDict,
    status: Status,
) -> None:
    """Go on with another number of agents.

    Args:
        graph: What was restored but for its agents.
        loop: The loop.
        anew: What was not, see `agents.tools.runs.saver`.
        config: Settings.
        status: Where to tell what is going on.
    """
    before = {
        'eval_episodes' if name.startswith('eval_env/') else 'num_agents': count
        for name, count in anew.items()
    }
    for key, count in before.items():
        status.say(
            'checkpoint',
            f'was saved with {key}={count}, and goes on with {config[key]}; '
            'their episodes begin anew',
        )
    # Others than native environments always begin anew.
    if 'num_agents' in before and graph.batch_envs['train'].keeps_state:
        graph.restart()


def _run(
    loop: 'Loop',
    saver: Any,
    status: Status,
    native: bool,
    ranks: World,
    called: calling.Calling,
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
        called: Calls callbacks, after whose errors nobody has gone on.
    """
    failure: BaseException | None = None
    alone = ranks.size == 1
    try:
        for score in loop.run(saver):
            status.report(score.report)
            if called.failure is not None:
                raise called.failure
            yield score
            if called.stopped_by is not None:
                status.end_early(loop.clock(), called.stopped_by)
                return
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
            agreed = not failure or failure is called.failure
            resumable = agreed or (alone and not native)
            if saver and loop.clock() and resumable:
                loop.save(saver)
                _tell_best(saver, status)
        except errors.UserError as error:
            if failure is None:
                raise
            # Said rather than raised, which would hide what went wrong first.
            status.say('checkpoint', str(error))


def _tell_best(saver: Any, status: Status) -> None:
    best = saver.best if saver else None
    if best:
        status.say(
            'best',
            f'score {console.score(best.score)} at step {best.step:,}; '
            '--checkpoint=best takes it',
        )


def _define_loop(
    graph: simulation_graph.SimulationGraph,
    config: AttrDict,
    status: Status,
    restarts: Restarts,
    began: float,
    keep: Callable[[], None],
    ranks: World,
    called: calling.Calling,
) -> 'Loop':
    """Make the loop; `keep` is called when something has been done."""
    from agents.tools.runs.loop import Evaluation, Loop, Training

    means = info_means.InfoMeans(
        config.log_info, graph.batch_envs, status.say, ranks
    )

    warn_of_length = _LengthWarning(graph, config, status)

    def counts(phase: str) -> dict[str, float]:
        warn_of_length(phase)
        numbers = means.take(phase)
        if restarts.budget:
            numbers['restarts'] = sum(ranks.gather(restarts.count))
        return numbers

    def keep_alike() -> None:
        agreement.require_same_weights(ranks, graph.learnt())
        keep()

    phases = status.phases
    return Loop(
        Training(
            _follow(graph.train, keep),
            phases.rollout,
            phases.steps,
            phases.rollouts_at_once or 1,
            phases.log_every,
            summarize_every=max(1, phases.eval_every // 2),
            summary=graph.algo.summary,
            counts=functools.partial(counts, 'train'),
        ),
        Evaluation(
            _follow(graph.eval, keep_alike),
            phases.eval_every,
            config.checkpoint_every,
            counts=functools.partial(counts, 'eval'),
        ),
        progress=status.progress,
        during=status.during,
        began=began,
        share=REPORTING_SHARE,
        decide=ranks.share,
        complete=called.complete,
    )


class _LengthWarning:
    """Warns once of an episode that does not end, where it has no limit."""

    def __init__(
        self,
        graph: simulation_graph.SimulationGraph,
        config: AttrDict,
        status: Status,
    ):
        self._graph, self._status = graph, status
        self._is_due = env_setup.limit(config) is None

    def __call__(self, phase: str) -> None:
        if not self._is_due:
            return
        if self._graph.longest_episode() < env_setup.ENDLESS:
            return
        self._is_due = False
        ends = 'goes on' if phase == 'train' else 'was stopped by evaluation'
        self._status.say(
            'max_length',
            f'an episode has lasted {env_setup.ENDLESS:,} steps and {ends}; '
            'set max_length to truncate episodes',
        )


def _follow(
    operation: Callable[..., Any], action: Callable[[], None]
) -> Callable[..., Any]:
    """Make an operation that an action follows."""

    def operate(*args: Any) -> Any:
        results = operation(*args)
        action()
        return results

    return operate
