"""Checks of environments against the API of Gymnasium."""
