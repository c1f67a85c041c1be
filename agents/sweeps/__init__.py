"""Several trainings with different settings and seeds.

run_sweep   `agents.sweep`; sweep_result, its result
sweep_plan  plan of a sweep and its file
search      settings chosen by Optuna
trials      trainings in processes of their own
"""
