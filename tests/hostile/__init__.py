"""Attacks on WMS2, each of which must fail."""
