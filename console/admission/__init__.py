"""Admission: the queue with expected starts, and the limits."""
