"""Export of policies as files that are used without this package.

An exported policy maps observations of the environment to its actions, like `agents.load`, but has
no state of its own: the recurrent state is an input and an output. See `description` for the names
of inputs and outputs.
"""
