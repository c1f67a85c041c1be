"""Settings: definitions, validation and storage.

    settings    all settings, by group
    kinds       kinds of values
    sizes       sizes that fit each other and memory
    checks      conversion and validation of values
    overrides   `--set key=value`
    lookup      configs by name, functions by file and name
    store       `config.yaml` of a run
    trust       signatures of settings that name code
    plain_yaml  YAML without tags and anchors
    render      settings as text

None of it imports TensorFlow.
"""
