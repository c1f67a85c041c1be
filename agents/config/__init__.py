"""Settings: what there are, their limits, and how they are kept.

    settings    all settings, by group
    kinds       kinds of values that a setting may have
    sizes       sizes that fit each other and into memory
    checks      converts and refuses values
    overrides   `--set key=value`
    lookup      configs by name, functions by file and name
    store       `config.yaml` of a run
    trust       signatures of settings that name code
    plain_yaml  YAML without tags and anchors
    render      settings as text

None of it imports TensorFlow.
"""
