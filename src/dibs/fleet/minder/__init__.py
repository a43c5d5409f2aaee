"""A process that runs one command at a time, keeps it to its time, and leaves nothing of it behind.

It stands between a worker and its command, because a worker can fail in ways that a command must not survive: it can be
killed, stopped, or hang in a call to a store that has gone silent. The minder speaks to no store. It knows until when
the command may run, and ends it then, unless it is told of a renewal; and when its worker is gone, it ends it at once.
"""
