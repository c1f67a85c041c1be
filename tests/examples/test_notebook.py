"""The notebook of the examples, in a kernel as a user starts one."""

import pathlib
import re

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / 'examples' / 'first_steps.ipynb'

THREADS = """
from agents.tools.graph import programs
programs._is_only_thread()
"""


def text_of(cell):
    """What a cell has printed and returned."""
    parts = [
        output.get('text') or output.get('data', {}).get('text/plain', '')
        for output in cell.outputs
    ]
    return ''.join(parts)


@pytest.mark.slow
def test_notebook_runs_in_a_kernel(nothing_left, tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(THREADS))
    cells = [cell for cell in notebook.cells if cell.cell_type == 'code']
    # It is kept without what it shows.
    assert not any(cell.outputs for cell in cells)
    nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name='python3',
        resources={'metadata': {'path': str(tmp_path)}},
    ).execute()
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [each for each in outputs if each.get('name') == 'stderr']
    trained, drawn, evaluated, used, own, threads = cells
    score = float(re.search(r'evaluation: (-\d+)', text_of(trained))[1])
    assert -1200 < score < 0
    assert any('image/png' in out.get('data', {}) for out in drawn.outputs)
    assert '100 episodes of Pendulum-v1' in text_of(evaluated)
    assert re.search(r'score -\d+\nmean of the obs', text_of(used))
    assert 'step 4,096: ' in text_of(own) and 'array([' in text_of(own)
    # So that training again and again takes no more memory.
    assert text_of(threads) == 'True'
    assert {path.name for path in tmp_path.iterdir()} == {'runs'}
