"""Protocols: each a policy, a console script and its own way to write tasks down, all on top of the Desk."""
