"""Packaging of `agents`."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r"__version__ = '(.+)'", (HERE / 'agents' / '__init__.py').read_text()).group(1)

# The second brings mpiexec.
MPI = ['mpi4py>=4,<5', 'mpich>=4.2,<6']
MUJOCO = ['gymnasium[mujoco]>=1.1,<2']
# Of the first versions whose vectors tell how their episodes begin.
ATARI = ['ale-py>=0.11,<0.13']
ENVPOOL = ['envpool>=1.2,<2']
RUFF = 'ruff>=0.15,<0.18'
SWEEP = ['optuna>=4,<6']


def describe() -> str:
    """The README without what leads to files that are not installed."""
    text = (HERE / 'README.md').read_text()
    text = re.sub(r'!\[[^]]*\]\((?!https?:)[^)]*\)\n*', '', text)
    return re.sub(r'\[([^]]*)\]\((?!https?:)[^)]*\)', r'\1', text)


setuptools.setup(
    name='agents',
    version=VERSION,
    description='Batched on-policy reinforcement learning in TensorFlow',
    long_description=describe(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    keywords='reinforcement learning, PPO, TRPO, TensorFlow, Gymnasium',
    classifiers=[
        'Development Status :: 4 - Beta',
        'Intended Audience :: Developers',
        'Intended Audience :: Science/Research',
        'Operating System :: MacOS :: MacOS X',
        'Operating System :: POSIX :: Linux',
        'Programming Language :: Python :: 3',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
        'Typing :: Typed',
    ],
    # So said, an editable installation is a path. As something that finds this
    # package, it would come after a directory with its name.
    package_dir={'': '.'},
    packages=setuptools.find_packages(include=['agents', 'agents.*']),
    entry_points={'console_scripts': ['agents = agents.scripts.command:run']},
    package_data={'agents': ['py.typed', 'algorithms/*/README.md']},
    python_requires='>=3.10',
    install_requires=[
        'tensorflow>=2.21,<2.22',
        'keras>=3.12,<4',
        'tensorboard>=2.20,<2.22',
        'numpy>=1.26,<3',
        'gymnasium[classic-control]>=1.1,<2',
        'ruamel.yaml>=0.18,<0.20',
        'cloudpickle>=3,<4',  # Sends constructors of environments to workers.
        'imageio-ffmpeg>=0.5,<1',  # Brings the encoder for videos.
        'matplotlib>=3.8,<4',  # Draws learning curves.
        'safetensors>=0.5,<1',  # Stores the tensors of checkpoints.
        'rich>=13.7,<16',  # Shows on a terminal how a training goes on.
    ],
    extras_require={
        'mujoco': MUJOCO,
        'mpi': MPI,
        'atari': ATARI,
        'envpool': ENVPOOL,
        'sweep': SWEEP,
        # Writes ONNX, and runs it for the comparison.
        'onnx': ['tf2onnx>=1.17,<2', 'onnxruntime>=1.20,<2'],
        # Runs LiteRT; what writes it is part of TensorFlow.
        'litert': ['ai-edge-litert>=2,<3'],
        'bench': [
            *MUJOCO,
            *MPI,
            *ATARI,
            *ENVPOOL,
            'stable-baselines3>=2.3,<3',
            'sb3-contrib>=2.3,<3',
            'sbx-rl>=0.20,<1',
            'opencv-python-headless>=4.9,<6',  # For SB3's frames of Atari.
        ],
        'docs': [
            'mkdocs-material>=9.6,<10',
            'mkdocstrings[python]>=1,<2',
            RUFF,  # Wraps signatures.
        ],
        'test': [
            *MUJOCO,
            *MPI,
            *ATARI,
            'ipykernel>=6.29,<8',  # With the next, runs notebooks.
            *SWEEP,
            'mypy>=1.11,<3',
            'nbclient>=0.10,<1',
            'psutil>=5.9,<8',
            'pytest>=9,<10',
            'pytest-xdist>=3.7,<4',  # Runs tests on several cores.
            RUFF,
            'setuptools>=70.1',  # Builds the wheel.
        ],
    },
)
