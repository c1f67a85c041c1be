"""The commands, and what they are made of.

Commands, each `agents NAME` and `python -m agents.scripts.NAME`, found by
`command`:

    train  check  evaluate  visualize  record  plot  export  sweep  config_list

Settings (their rules are in `agents.config`):

    configs         experiments, as functions that return their settings
    experiments     finds what a command is about

From settings to a training, which `training` puts together:

    plan            what they amount to, in numbers
    env_setup       environments; vectors, those that come as one
    batches         where these step
    networks        by the name that a configuration gives them
    utility         the graph of both, and its files
    agreement       what ranks have in common
    beginning       what is taken from another run
    callbacks       functions of the user's; calling, who calls them
    info_means      numbers of infos; status, what is told meanwhile

What is left behind, and what is done with it:

    run_directory   whose it is; chosen_run, the one that is asked for
    results         as tables; run_groups, those that are alike
    load            a policy, to be called; normalizer, its statistics
    playing         what plays it; export_check, whether another plays alike
    drawing         the look of plots
    sweep_plan      what a sweep tries; search, with which settings; trials

The terminal:

    options         of command lines
    console         lines; display, what is renewed below them
    interrupts      Ctrl-C and other signals
    launcher        the same command on several ranks
"""
