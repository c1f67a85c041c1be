"""Batches of single environments."""
