"""The loop of phases, and what a run leaves behind."""
