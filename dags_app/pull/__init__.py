"""Pull mode: runners, the jobs of a pull round, ask for their files one by one."""
