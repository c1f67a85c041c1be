"""From settings to a trained run.

train             `agents.train`, and what it returns
session           a training: open, build, restore, train, save
phases            the loop of a training and what follows each step
plan              rollouts, updates and evaluations of a training, in numbers
experiments       settings for an environment, an algorithm or a config
env_kinds         kinds of environments: native, vector, single
env_setup         environments of Gymnasium; vectors, those that are a batch
env_names         names of environments; env_arguments, what makes them
batches           what kinds share when they start batches for a training
networks          networks by the names that settings give them
simulation_graph  environments and algorithm as functions of TensorFlow
storage           checkpoints and spaces of a run
run_directory     the directory of a run and its lock
beginning         weights that are taken from another run
callbacks         functions of the user; calling, who calls them
reporter          lines about progress; info_means, means of infos
agreement         consistency checks between ranks
check_env         `agents.check`; check_text, what it prints
"""
