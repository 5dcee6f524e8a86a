"""The home page of the console."""
