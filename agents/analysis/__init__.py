"""Results of runs, read back; needs no TensorFlow.

results     `agents.results`
run_groups  runs that differ in their seeds alone
estimates   means with confidence intervals
plotting    `agents.plot`; drawing, the look of its figures; tables, numbers
"""
