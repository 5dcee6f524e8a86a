"""Submission of requests: validation while typing, a plan of two variants, submit."""
