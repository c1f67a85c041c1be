"""Measurements in processes of their own, so that none changes another."""

import json
import subprocess
import sys


def run(module: str, *arguments: object) -> dict[str, float]:
    """Run `python -m module --only ...`, and parse the last line it prints."""
    command = [sys.executable, '-m', module, '--only', *map(str, arguments)]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(output.splitlines()[-1])
