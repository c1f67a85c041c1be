"""Batches of environments and the algorithms that learn from them, as one
TensorFlow graph.

    import agents

    for score in agents.train(agents.configs.pendulum(), 'runs/pendulum'):
        print(score)
    policy = agents.load('runs/pendulum')
    action = policy(observ)
"""

from typing import TYPE_CHECKING

from agents import lazy, systems

systems.require_supported()

__version__ = '0.1.0'

if TYPE_CHECKING:  # The same names, for editors and checkers of types.
    from agents import algorithms as algorithms
    from agents import environments as environments
    from agents import parts as parts
    from agents import scripts as scripts
    from agents import tools as tools
    from agents.analysis.results import results as results
    from agents.policies.load import load as load
    from agents.scripts import configs as configs
    from agents.scripts.check import check as check
    from agents.scripts.evaluate import evaluate as evaluate
    from agents.scripts.export import export as export
    from agents.scripts.plot import plot as plot
    from agents.scripts.record import record as record
    from agents.scripts.sweep import sweep as sweep
    from agents.scripts.visualize import visualize as visualize
    from agents.training import callbacks as callbacks
    from agents.training.session import train as train
else:
    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            'train': 'training.session',
            'load': 'policies.load',
            'check': 'scripts.check',
            'evaluate': 'scripts.evaluate',
            'results': 'analysis.results',
            'plot': 'scripts.plot',
            'visualize': 'scripts.visualize',
            'record': 'scripts.record',
            'sweep': 'scripts.sweep',
            'export': 'scripts.export',
            'configs': 'scripts.configs',
            'callbacks': 'training.callbacks',
            'tools': 'tools',
            'parts': 'parts',
            'algorithms': 'algorithms',
            'environments': 'environments',
            'scripts': 'scripts',
        },
    )
