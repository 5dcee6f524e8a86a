"""Planning: splits input into jobs and merge groups. Pure: no clock, database or disk."""
