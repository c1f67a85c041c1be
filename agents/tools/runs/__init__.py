"""Loop of phases, checkpoints and results of a run."""
