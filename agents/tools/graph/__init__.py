"""What a graph is made of, and the step that joins acting to learning."""
