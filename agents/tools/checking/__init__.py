"""Environments held against the contract of Gymnasium."""
