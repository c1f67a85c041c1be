"""Policies as files that are used without this package.

A policy maps what an environment observes to what it is stepped with, as
`agents.load` has it, but keeps nothing: a memory goes in and comes out. See
`description` for the names of what goes in and comes out.
"""
