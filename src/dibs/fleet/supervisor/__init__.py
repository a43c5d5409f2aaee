"""A process that runs one command at a time, enforces its deadline, and leaves none of its processes behind.

It runs between a worker and its command, because a worker can fail in ways that a command must not survive: it can be
killed, stopped, or hang in a call to a silent store. The supervisor opens no store. It knows the deadline of the
command and ends it then, unless the worker reports a renewal. When its worker is gone, it ends the command at once.
"""
