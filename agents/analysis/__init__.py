"""Analysis of the results of runs; needs no TensorFlow.

results     `agents.results`
run_groups  runs that differ only in their seeds
estimates   means with confidence intervals
plotting    `agents.plot`; drawing, the figures; tables, numbers
"""
