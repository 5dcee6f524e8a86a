"""Planning: input in, jobs and merge groups out. Pure: nothing here reads a clock, a database or a disk."""
