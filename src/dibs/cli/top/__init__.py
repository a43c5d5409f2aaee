"""`dibs top`: who is at work on what, what comes next, and what waits for people, at a glance."""
