"""CWL workflows: reading, checking and wiring. Pure, except for `checking`, which starts a process."""
