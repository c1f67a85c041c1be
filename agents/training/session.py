"""Training from settings to the last checkpoint.

A session has stages, one method each: `open` takes the directory and starts the environments,
`build` makes the graph, `restore` loads the last checkpoint, `train` runs the loop, and `save`
writes a final checkpoint.
"""

import contextlib
import functools
import pathlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agents import tools
from agents.config import plain_yaml, render, sizes, store
from agents.config.settings import use_whole_numbers
from agents.tools import errors, world
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import checkpoints
from agents.tools.workers.restarts import Restarts
from agents.training import (
    agreement,
    beginning,
    calling,
    env_kinds,
    info_means,
    phases,
    plan,
    run_directory,
    simulation_graph,
    storage,
)
from agents.training.reporter import Reporter

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.runs.loop import Score
    from agents.training.callbacks import Callback


class Session:
    """Training with all its resources.

    Attributes:
        config: Settings of all ranks together.
        kind: Kind of environments.
        ranks: All ranks.
        reporter: Prints progress.
        plan: Numbers of steps.

    Args:
        config: Settings.
        logdir: Directory of the run; by default nothing is written.
        env_processes: Use worker processes; by default whichever is faster.
        callbacks: Functions that are called with every report.
        reporter: Prints progress, by default nothing.
    """

    def __init__(
        self,
        config: AttrDict,
        logdir: str | pathlib.Path | None = None,
        env_processes: bool | None = None,
        callbacks: 'Sequence[Callback | str]' = (),
        reporter: Reporter | None = None,
    ):
        self.ranks = world.connect()
        self.config = use_whole_numbers(config)
        plan.require_valid(self.config, self.ranks.size)
        self.kind = env_kinds.of(self.config)
        self.plan = plan.make(self.config, self.kind.in_graph)
        self.reporter = reporter or Reporter()
        self.reporter.plan = self.plan
        self._env_processes = env_processes
        # Environments may change the working directory.
        self._logdir = pathlib.Path(logdir).absolute() if logdir else None
        self._calling = calling.Calling(
            calling.find([*self.config.callbacks, *callbacks]), self.ranks
        )
        self._restarts = Restarts(
            self.config.worker_restarts, functools.partial(self.reporter.say, 'workers')
        )
        self._resources = contextlib.ExitStack()
        self._saver: Any = None

    def scores(self) -> Generator['Score', None, None]:
        """Go through all stages; yields the score of every report.

        Closing the generator saves what has been learnt.
        """
        with self._resources:
            self.open()
            self.build()
            self.restore()
            step = self.loop.clock()
            if self.loop.is_complete():
                if self._logdir:
                    store.renew_signature(self.config, self._logdir)
                self.reporter.complete(step)
                self.reporter.tell_best(self._saver)
                return
            if not (step and self._envs[0].keeps_state):
                self.graph.restart()
            self.reporter.begin(step)
            yield from self.train()

    def open(self) -> None:
        """Lock the directory of the run, and start the environments."""
        config, ranks, say = self.config, self.ranks, self.reporter.say
        say('plan', plan.describe(config, self.plan, ranks.size))
        agreement.come_together(ranks, config, self._logdir, say)
        self._saves = ranks.share(self._logdir is not None)
        if not ranks.is_first:
            self._logdir = None
        self._was_abandoned = self._take_directory()
        step = ranks.share(storage.last_checkpoint(self._logdir) or 0)
        self._resumes = step > 0
        self.config, self._source = beginning.choose(
            config, self._logdir, self._resumes, ranks, say
        )
        self._envs = self.kind.start_training(
            env_kinds.Request(
                sizes.share(config, ranks.size),
                self._env_processes,
                step,
                self.reporter,
                self._restarts,
                ranks,
            )
        )
        for env in self._envs:
            self._resources.callback(env.close)
            if ranks.size == 1:  # Others would wait for this one.
                self.reporter.signals.call(env.cancel)
        agreement.require_same_spaces(ranks, self._envs[0])

    def build(self) -> None:
        """Make the networks, the algorithm and the loop."""
        env, ranks = self._envs[0], self.ranks
        mine = sizes.share(self.config, ranks.size)
        spaces = env.observation_space, env.action_space
        plan.require_room(*spaces, mine)
        lines = plan.describe_network(*spaces, self.config)
        for number, line in enumerate(lines):
            self.reporter.say('' if number else 'network', line)
        self._resources.enter_context(tools.programs.afresh())
        self.graph = simulation_graph.define_simulation_graph(
            self._envs[0],
            self._envs[1],
            # So that a schedule ends when the training does.
            mine.copy(steps=self.plan.steps),
            one_program=self.plan.rollouts_at_once is not None,
            ranks=ranks,
        )
        self.loop = phases.define_loop(
            self.graph,
            self.config,
            self.reporter,
            self._restarts,
            self._calling,
            ranks,
            self._open_records,
        )

    def restore(self) -> None:
        """Restore the last checkpoint, or initialize from that of another run."""
        logdir, source, say = self._logdir, self._source, self.reporter.say
        env = self._envs[0]
        if logdir and (logdir / storage.SPACES).exists():
            storage.require_same_spaces(env, logdir, 'begin a new run')
        if self._saves:
            self._saver = storage.define_shared_saver(
                self.graph,
                self.loop.step,
                logdir,
                self.config.keep_checkpoints,
                self.ranks,
                lambda: agreement.require_same_weights(self.ranks, self.graph.learnt()),
            )
            self._restore_checkpoint()
        if self._was_abandoned:
            say('checkpoint', 'nothing had been saved')
        if source:
            otherwise = 'do not begin from it'
            storage.require_same_spaces(env, source.directory, otherwise)
        if self.config.begin_from is not None and not self._resumes:
            beginning.take(source, self.graph, self.config, self.ranks, say)

    def train(self) -> Iterator['Score']:
        """Run the loop, and save however it ends."""
        failure: BaseException | None = None
        alone = self.ranks.size == 1
        try:
            for score in self.loop.run(self._saver):
                self.reporter.report(score.report)
                if self._calling.failure is not None:
                    raise self._calling.failure
                yield score
                if self._calling.stopped_by is not None:
                    step = self.loop.clock()
                    self.reporter.end_early(step, self._calling.stopped_by)
                    return
        except (errors.Cancelled, GeneratorExit):
            raise
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            if not (stopped and (alone or self.reporter.signals.agreed)):
                failure = error
            raise
        finally:
            self.save(failure)

    def save(self, failure: BaseException | None) -> None:
        """Save a checkpoint, unless a failure leaves the state inconsistent.

        After a failure, other ranks and native environments may have advanced, so that the last
        checkpoint has to do. After the exception of a callback, nothing has advanced.
        """
        self.reporter.signals.disarm()
        agreed = failure is None or failure is self._calling.failure
        native = self._envs[0].keeps_state
        is_whole = agreed or (self.ranks.size == 1 and not native)
        if not (self._saver and self.loop.clock() and is_whole):
            return
        try:
            self.loop.save(self._saver)
            self.reporter.tell_best(self._saver)
        except errors.UserError as error:
            if failure is None:
                raise
            # Said rather than raised, which would hide what went wrong first.
            self.reporter.say('checkpoint', str(error))

    def _take_directory(self) -> bool:
        """Lock the directory of the run and remove leftovers.

        Returns:
            Whether it holds a run that has saved nothing.
        """
        logdir, config = self._logdir, self.config
        if logdir is None:
            return False
        store.require_plain(config)
        self._resources.enter_context(run_directory.locked(logdir))
        checkpoints.clear_up(logdir / storage.CHECKPOINTS)
        if run_directory.is_trained(logdir):
            store.require_same_sizes(config, logdir)
            storage.require_room(logdir, sizes.count_weights(config))
            return False
        return (logdir / store.CONFIG_FILE).exists()

    def _open_records(self) -> None:
        """Write the settings and open the results, unless they are open.

        Only after the first steps, so that a mistake or a broken environment changes no run.
        """
        logdir, config = self._logdir, self.config
        if logdir is None or self.loop.records:
            return
        store.save_config(config, logdir)
        storage.save_spaces(self._envs[0], logdir)
        records = storage.define_records(
            logdir,
            self.loop.clock(),
            info_means.columns(config.log_info),
            settings=render.as_hyperparameters(config),
            text=render.as_markdown(config),
        )
        self.loop.records = self._resources.enter_context(records)

    def _restore_checkpoint(self) -> None:
        """Restore the last undamaged checkpoint, if there is any."""
        tell = functools.partial(self.reporter.say, 'checkpoint')
        try:
            step = self._saver.restore(warn=tell)
        except errors.MisfitError as error:
            if not callable(self.config.network):
                raise
            raise _explain(error, self.config) from None
        if self._saver.best:
            self.reporter.best = self._saver.best.score
        if step is None:
            return
        if step != self.loop.clock():  # An older version counted otherwise.
            self.loop.set_clock(step)
        # Sizes may have changed; schedules follow the training steps.
        self.graph.count_on(-(-step // self.plan.rollout))
        # Numbers of agents that the checkpoint was saved with.
        before = {
            'eval_episodes' if name.startswith('eval_env/') else 'num_agents': n
            for name, n in self._saver.anew.items()
        }
        for key, count in before.items():
            tell(
                f'was saved with {key}={count}, and goes on with '
                f'{self.config[key]}; their episodes begin anew'
            )
        # Others than native environments always begin anew.
        if 'num_agents' in before and self._envs[0].keeps_state:
            self.graph.restart()


def _explain(error: errors.MisfitError, config: AttrDict) -> errors.ConfigError:
    """Explain that a function of the user makes networks of other sizes.

    Differences of settings have been refused before.
    """
    network = plain_yaml.simplify(config.network)
    text, _, _ = str(error).partition(':')
    return errors.ConfigError(
        f'{text}: network={network} makes networks of other sizes than those '
        'that it holds. Leave network as it was, or begin a new run.'
    )
