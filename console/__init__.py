"""Operator pages that are more than lists of rows, and the process that keeps them up to date."""
