"""Benchmarks of speed and memory.

Each measures a ratio to a reference in the same run and compares it with a bar.
"""
