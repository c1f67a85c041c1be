"""Results of runs as tables, read back from what real runs have written."""

import csv
import shutil

import numpy as np
import pytest

import agents
from agents.analysis.results import Results
from agents.tools import errors


def rows(directory):
    with open(directory / 'progress.csv', newline='') as file:
        return list(csv.DictReader(file))


def test_columns_are_those_of_the_table(native_run):
    found, table = agents.results(native_run), rows(native_run)
    assert [*found] == [*table[0]] and found.count == len(table) == 4
    assert found['step'].dtype == np.int64
    assert found['step'].tolist() == [32, 32, 64, 64]
    assert found['phase'].tolist() == ['train', 'eval'] * 2
    for name in ('score', 'length', 'value_loss'):
        texts = [row[name] for row in table]
        expected = [float(text) if text else np.nan for text in texts]
        np.testing.assert_array_equal(found[name], expected)
    assert np.isnan(found['value_loss'][1])
    assert found.config.max_length == 20
    assert found.config == agents.config.store.load_config(native_run)
    assert repr(found).startswith(
        f"<Results of '{native_run}': 4 reports, until step 64; columns step, "
    )


def test_phase_has_only_its_reports(native_run):
    scores = agents.results(native_run).phase('eval')
    assert isinstance(scores, Results) and scores.count == 2
    assert set(scores['phase']) == {'eval'}
    assert scores['step'].tolist() == [32, 64]
    with pytest.raises(errors.ConfigError, match="did you mean 'eval'"):
        scores.phase('evl')
    with pytest.raises(KeyError, match="did you mean 'score'"):
        scores['scor']


@pytest.fixture
def runs(native_run, tmp_path):
    """Two runs, of which one has a column more, and something else."""
    home = tmp_path / 'sweep'
    shutil.copytree(native_run, home / 'a')
    shutil.copytree(native_run, home / 'b')
    (home / 'empty').mkdir()
    (home / 'link').symlink_to(home / 'a')
    file = home / 'b' / 'progress.csv'
    lines = file.read_text().splitlines()
    lines = [f'{lines[0]},own', *(f'{line},7' for line in lines[1:3])]
    file.write_text('\n'.join([*lines, '96,train,1']))
    config = home / 'b' / 'config.yaml'
    config.write_text(config.read_text().replace('seed: 0', 'seed: 5'))
    return home


def test_long_names_of_runs_take_no_memory(native_run, tmp_path):
    directory = tmp_path / 'x' / ('n' * 200)
    shutil.copytree(native_run, directory)
    rows = ''.join(f'{step},eval,1\n' for step in range(30_000))
    (directory / 'progress.csv').write_text(f'step,phase,score\n{rows}')
    found = agents.results(tmp_path / 'x')
    assert found['run'].nbytes < 1e6
    assert set(found['run']) == {'n' * 200}


def test_runs_of_a_directory_are_one_table_and_several(runs):
    found = agents.results(runs)
    # The line that was cut short is passed over.
    assert found['run'].tolist() == ['a'] * 4 + ['b'] * 2
    assert found['step'].tolist() == [32, 32, 64, 64, 32, 32]
    np.testing.assert_array_equal(found['own'], [np.nan] * 4 + [7, 7])
    assert [*found.runs] == ['a', 'b'] and found.config is None
    assert [run.config.seed for run in found.runs.values()] == [0, 5]
    above = agents.results(runs.parent)
    assert [*above.runs] == ['sweep/a', 'sweep/b']
    scores = found.phase('eval')
    assert scores['run'].tolist() == ['a', 'a', 'b']
    assert scores.runs['b'].count == 1
    assert '2 runs, 6 reports' in repr(found)


def test_table_of_pandas_is_the_same(runs):
    pandas = pytest.importorskip('pandas')
    found = agents.results(runs)
    table = pandas.DataFrame(found)
    assert [*table.columns] == [*found] and len(table) == found.count
    assert table.groupby('run')['step'].max().to_dict() == {'a': 64, 'b': 32}


def test_damage_is_told(runs):
    file = runs / 'a' / 'progress.csv'
    whole = file.read_text()
    file.write_text(whole.replace('\n32,eval,', '\n32,eval,x', 1))
    with pytest.raises(errors.ConfigError, match='Cannot read line 3 of'):
        agents.results(runs / 'a')
    lines = whole.splitlines()
    lines[1] = lines[1].rpartition(',')[0] + ',x'
    file.write_text('\n'.join([*lines, '']))
    with pytest.raises(errors.ConfigError, match=r'progress.csv: .*x'):
        agents.results(runs / 'a')
    for path, message in (
        (runs / 'empty', 'There are no results in'),
        (runs / 'nowhere', 'Cannot look for runs in'),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            agents.results(path)


def test_results_need_no_tensorflow(native_run, run_python):
    code = "import agents, sys; agents.results(sys.argv[1]); assert 'tensorflow' not in sys.modules"
    finished = run_python('-c', code, native_run)
    assert not finished.code, finished.problems
