"""The commands, and what they are made of.

Commands, each `agents NAME` and `python -m agents.scripts.NAME`, found by
`command`:

    train  check  evaluate  visualize  record  plot  export  sweep  config_list

From a name to settings, in the order in which they are asked for:

    configs         experiments, as functions that return their settings
    config_names    finds them; experiments, what a command is about
    settings        the default, kind, unit and meaning of each
    kinds, checks   which values a setting may have
    overrides       what the command line says instead; plain_yaml reads it
    config_file     the file that a run keeps them in; trust, whose code counts
    settings_text   lists them; hyperparameters, for TensorBoard

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
