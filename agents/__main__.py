"""`python -m agents` is the command `agents`."""

import sys

from agents.scripts import command

if __name__ == '__main__':
    sys.exit(command.run())
