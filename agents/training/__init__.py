"""From settings to a trained run.

session           a training: open, build, restore, train, close
phases            the loop of a training and what follows each step
plan              rollouts, updates and evaluations of a training, in numbers
experiments       settings for an environment, an algorithm or a config
env_setup         environments; vectors, those that are a batch themselves
batches           where environments step: workers, this process, the graph
networks          networks by the names that settings give them
simulation_graph  environments and algorithm as functions of TensorFlow
storage           checkpoints and spaces of a run
run_directory     the directory of a run and its lock
beginning         weights that are taken from another run
callbacks         functions of the user; calling, who calls them
reporter          lines about progress; info_means, means of infos
agreement         consistency checks between ranks
check_env         `agents.check`
"""
