"""Credentials of jobs and of WMS2: what a token may open, when it is renewed, when a file ends."""
