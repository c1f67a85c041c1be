"""Batches of environments and the algorithms that learn from them, as one
TensorFlow graph.

    import agents

    for score in agents.train(agents.configs.pendulum(), 'runs/pendulum'):
        print(score)
    policy = agents.load('runs/pendulum')
    action = policy(observ)
"""

from agents import lazy

__version__ = '0.1.0'

__getattr__, __dir__ = lazy.exports(
    __name__,
    {
        'train': 'scripts.training',
        'load': 'scripts.load',
        'check': 'scripts.check',
        'plot': 'scripts.plot',
        'sweep': 'scripts.sweep',
        'configs': 'scripts.configs',
        'tools': 'tools',
        'parts': 'parts',
        'algorithms': 'algorithms',
        'scripts': 'scripts',
    },
)
