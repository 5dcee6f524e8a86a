"""Alerts: open ones by kind, each with its entry of the guide."""
