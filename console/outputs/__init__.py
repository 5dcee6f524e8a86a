"""Outputs: blocks by step of the pipeline, stuck rules and datasets."""
