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
    from agents.analysis.plotting import plot as plot
    from agents.analysis.results import results as results
    from agents.exporting.export_run import export as export
    from agents.policies.evaluation import evaluate as evaluate
    from agents.policies.load import load as load
    from agents.policies.recording import record as record
    from agents.policies.video import visualize as visualize
    from agents.scripts import configs as configs
    from agents.sweeps.run_sweep import sweep as sweep
    from agents.training import callbacks as callbacks
    from agents.training.check_env import check as check
    from agents.training.train import train as train
else:
    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            'train': 'training.train',
            'load': 'policies.load',
            'check': 'training.check_env',
            'evaluate': 'policies.evaluation',
            'results': 'analysis.results',
            'plot': 'analysis.plotting',
            'visualize': 'policies.video',
            'record': 'policies.recording',
            'sweep': 'sweeps.run_sweep',
            'export': 'exporting.export_run',
            'configs': 'scripts.configs',
            'callbacks': 'training.callbacks',
            'tools': 'tools',
            'parts': 'parts',
            'algorithms': 'algorithms',
            'environments': 'environments',
            'scripts': 'scripts',
        },
    )
