"""Environments that are a batch themselves, as Gymnasium vectors."""
