"""Settings: every setting with its value, source and meaning."""
