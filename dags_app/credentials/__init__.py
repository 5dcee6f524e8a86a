"""Credentials of jobs and of WMS2: scopes of tokens, their renewal, and the expiry of files."""
