"""A runner: a job that asks WMS2 for its files, processes them and stores what it made."""
