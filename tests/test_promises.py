"""That every promise of the documents names tests that there are."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent


def test_promises_name_tests_that_there_are():
    text = (ROOT / 'docs' / 'promises.md').read_text()
    named = set(re.findall(r'`(tests/\S+\.py)::(\w+)`', text))
    assert len(named) > 50
    for file in {file for file, _ in named}:
        tree = ast.parse((ROOT / file).read_text())
        functions = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef)
        }
        assert {test for other, test in named if other == file} <= functions
