"""Tools of the graph, and `simulate`, which fuses acting and learning."""
