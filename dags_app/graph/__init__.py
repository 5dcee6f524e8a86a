"""The graph of a workflow: rounds, merge groups and nodes with their positions and states."""
