"""Terminal output, signals and launch of commands.

console     lines of text; display, the progress below them
interrupts  Ctrl-C and other signals
launcher    a command on several ranks
"""
