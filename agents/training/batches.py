"""Functions that kinds of environments share to start batches for a training."""

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from agents import tools
from agents.tools.attr_dict import AttrDict
from agents.training import env_setup, simulation_graph
from agents.training.reporter import Reporter

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.graph.graph_env import GraphEnv
    from agents.training.env_kinds.kind import Request


def counts(config: AttrDict) -> list[tuple[int, int]]:
    """Return the purposes of batches, with their numbers of environments."""
    return [
        (env_setup.TRAIN, config.num_agents),
        (env_setup.EVAL, config.eval_episodes),
    ]


def import_tensorflow(reporter: Reporter) -> None:
    """Import TensorFlow, and show that this takes a while."""
    reporter.say('tensorflow', 'importing')
    with reporter.busy('starting', lambda: 'importing tensorflow'):
        importlib.import_module('agents.tools.graph.backend')


def combine(members: list[Any], request: 'Request') -> 'list[GraphEnv]':
    """Make a batch in the graph of each list of members; closes all if one fails."""
    config = request.config
    batches = []
    with contextlib.ExitStack() as stack:
        for each in members:
            batch = tools.BatchEnv(each, timeout=config.worker_timeout, restarts=request.restarts)
            stack.callback(batch.close)
            batches.append(batch)
        # Before TensorFlow has run something.
        simulation_graph.use_threads(config, batches[0].observation_space, request.ranks)
        _tell_if_slow(request.reporter)
        made: list[GraphEnv] = [tools.InGraphBatchEnv(batch) for batch in batches]
        stack.pop_all()
    return made


def _tell_if_slow(reporter: Reporter) -> None:
    """Print why compiled programs cannot call the environments, if so."""
    from agents.tools.graph import foreign

    reason = foreign.why_not()
    if reason is not None:
        reporter.say('stepping', f'slowly, as compiled programs cannot call Python here: {reason}')
