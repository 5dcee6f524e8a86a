"""The bars of speed and memory, measured. Every bar is a ratio taken in one run against a limit or a peer."""
