"""Audit: who changed what, with the difference."""
