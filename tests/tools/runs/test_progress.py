"""Tables of results: whole rows are read, and what is no table is refused."""

import math

import pytest

from agents.tools import errors
from agents.tools.runs import progress

NAMES = 'step,phase,score,loss\r\n'


@pytest.fixture
def rows(tmp_path):
    """A function that reads a table from what is in the file."""

    def read(text):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / progress.FILE).write_bytes(data)
        return list(progress.read(tmp_path))

    return read


def test_rows(rows):
    first, second = rows(f'{NAMES}10,train,1.5,0.1\r\n20,eval,,\r\n')
    cells = {'step': '10', 'phase': 'train', 'score': '1.5', 'loss': '0.1'}
    assert (first.step, first.phase, first.score) == (10, 'train', 1.5)
    assert first.cells == cells and math.isnan(first.score_std)
    assert second.step == 20 and math.isnan(second.score)
    assert second.cells['loss'] == ''


def test_deviations_of_scores(rows):
    text = 'step,phase,score,score_std\n10,eval,1.5,0.25\n20,eval,2,\n'
    first, second = rows(text)
    assert first.score_std == 0.25 and math.isnan(second.score_std)


def test_rows_are_encoded_as_they_are_read(rows):
    encoded = progress.encode([['step', 'phase', 'score'], [1, 'eval', 0.5]])
    assert encoded == b'step,phase,score\r\n1,eval,0.5\r\n'
    assert [row[:3] for row in rows(encoded)] == [(1, 'eval', 0.5)]


@pytest.mark.parametrize('kept', [1, 8, 15, 16])
def test_row_that_was_cut_short_is_left_out(rows, kept):
    text = f'{NAMES}10,train,1.5,0.1\r\n' + '2000,train,9,12\r\n'[:kept]
    assert [row.step for row in rows(text)] == [10]


@pytest.mark.parametrize('text', ['', 'step,pha', NAMES, f'{NAMES}\n\n'])
def test_no_rows(rows, text):
    assert rows(text) == []


@pytest.mark.parametrize('limit', ['MAX_ROWS', 'MAX_CELLS'])
def test_table_that_is_too_long_is_refused(rows, monkeypatch, limit):
    monkeypatch.setattr(progress, limit, 12)
    assert len(rows(NAMES + 2 * '1,eval,1,1\n')) == 2
    with pytest.raises(errors.ConfigError, match='must have at most'):
        rows(NAMES + 12 * '1,eval,1,1\n')


HOSTILE = {
    'huge step': f'{NAMES}{"9" * 400},train,1,1\n',
    'endless step': f'{NAMES}{"9" * 5000},train,1,1\n',
    'step of another kind': f'{NAMES}1e3,train,1,1\n',
    'negative step': f'{NAMES}-3,train,1,1\n',
    'step in other digits': f'{NAMES}²,train,1,1\n',
    'no deviation': 'step,phase,score,score_std\n10,train,1,wide\n',
    'long phase': f'{NAMES}10,{"x" * 9000},1,1\n',
    'other phase': f'{NAMES}10,test,1,1\n',
    'no score': f'{NAMES}10,train,high,1\n',
    'no text': NAMES.encode() + b'10,train,1,\xff\n',
    'zero bytes': NAMES.encode() + b'\0\0,,,\n',
    'long line': NAMES + '1,' * 100_000 + '\n',
    'long cell': f'{NAMES}10,train,1,{"x" * 200_000}\n',
    'no such columns': 'a,b\n1,2\n',
    'a column twice': 'step,phase,score,step\n1,train,2,3\n',
    'a program': b'\x7fELF\x02\x01\x01\0\n',
}


@pytest.mark.parametrize('text', HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_table_is_refused(rows, text):
    with pytest.raises(errors.ConfigError, match=r'line \d of .*csv') as info:
        rows(text)
    assert '\n' not in str(info.value) and len(str(info.value)) < 400
