"""The programs of the worker processes: each module drains one kind of queue, in a separate environment.

Each takes `fill URL JOBS`, which creates the queue with the jobs 0 to JOBS - 1, and `drain URL MODE BATCH`, which waits
for the common start and works until the queue is empty.
"""
