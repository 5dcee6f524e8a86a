"""Observation: health checks, counters, logs, traces and heartbeats."""
