"""Commands, and what users know by name.

Each command is `agents NAME` and `python -m agents.scripts.NAME`, found by
`command`; `options` parses its options.

    train  check  evaluate  visualize  record  plot  export  sweep  config_list

    configs      experiments, as functions that return their settings
    networks     networks by the names that settings give them
    utility      parts of a training
    chosen_run   the run that `train` is asked for
"""
