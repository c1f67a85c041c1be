"""Types of the package, as a strict checker of a user's code sees them."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent


def test_users_may_be_strict(monkeypatch):
    """As with the installed package, of which checkers report no errors."""
    monkeypatch.setenv('MYPYPATH', str(ROOT))
    result = subprocess.run(
        [
            *(sys.executable, '-m', 'mypy', '--strict', '--config-file='),
            '--follow-imports=silent',
            f'--cache-dir={ROOT / ".mypy_cache" / "strict"}',
            str(HERE / 'types_of_user.py'),
        ],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.returncode, result.stdout + result.stderr
