"""Tasks in one SQLite file: the default, for any number of processes on one host."""
