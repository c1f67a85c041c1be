"""Loop of a training: its phases, reports and callbacks."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agents.tools.attr_dict import AttrDict
from agents.tools.workers.restarts import Restarts
from agents.tools.world import World
from agents.training import agreement, env_setup, info_means
from agents.training.calling import Calling
from agents.training.reporter import Reporter
from agents.training.simulation_graph import SimulationGraph

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.runs.loop import Loop

# Share of the time that histograms may take, and that checkpoints may take.
REPORTING_SHARE = 0.02


def define_loop(
    graph: SimulationGraph,
    config: AttrDict,
    reporter: Reporter,
    restarts: Restarts,
    calling: Calling,
    ranks: World,
    keep: Callable[[], None],
) -> 'Loop':
    """Make the loop of a training.

    Args:
        graph: Graph that trains and evaluates.
        config: Settings.
        reporter: Prints progress, and holds the plan.
        restarts: Counts restarts of workers.
        calling: Calls the callbacks with every report.
        ranks: All ranks.
        keep: Called after each step of the loop.
    """
    from agents.tools.runs.loop import Evaluation, Loop, Training

    assert reporter.plan is not None
    plan, say = reporter.plan, reporter.say
    means = info_means.InfoMeans(config.log_info, graph.batch_envs, say, ranks)
    warning = _LengthWarning(graph, config, say)

    def count(phase: str) -> dict[str, float]:
        warning.check(phase)
        numbers = means.take(phase)
        if restarts.budget:
            numbers['restarts'] = sum(ranks.gather(restarts.count))
        return numbers

    def train(rollouts: int) -> dict[str, float]:
        results = graph.train(rollouts)
        keep()
        return results

    def evaluate() -> dict[str, float]:
        results = graph.eval()
        agreement.require_same_weights(ranks, graph.learnt())
        keep()
        return results

    return Loop(
        Training(
            train,
            plan.rollout,
            plan.steps,
            plan.rollouts_at_once or 1,
            plan.log_every,
            summarize_every=max(1, plan.eval_every // 2),
            summary=graph.algo.summary,
            counts=functools.partial(count, 'train'),
        ),
        Evaluation(
            evaluate,
            plan.eval_every,
            config.checkpoint_every,
            counts=functools.partial(count, 'eval'),
        ),
        progress=reporter.progress,
        during=reporter.during,
        began=reporter.began,
        share=REPORTING_SHARE,
        decide=ranks.share,
        complete=calling.complete,
    )


class _LengthWarning:
    """Warns once about an episode that does not end and has no limit."""

    def __init__(self, graph: SimulationGraph, config: AttrDict, say: Callable[[str, str], Any]):
        self._graph, self._say = graph, say
        self._is_due = env_setup.limit(config) is None

    def check(self, phase: str) -> None:
        if not self._is_due:
            return
        if self._graph.longest_episode() < env_setup.ENDLESS:
            return
        self._is_due = False
        ends = 'goes on' if phase == 'train' else 'was stopped by evaluation'
        self._say(
            'max_length',
            f'an episode has lasted {env_setup.ENDLESS:,} steps and {ends}; '
            'set max_length to truncate episodes',
        )
