"""Tasks in a folder of Markdown files, shared by agents and people on one host."""
