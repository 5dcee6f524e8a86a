"""Attacks on WMS2. Each must fail."""
