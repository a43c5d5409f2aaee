"""What runs in the worker processes: each module drains one kind of queue, in an environment of its own.

Every one is started as `… fill URL JOBS`, which makes the queue and puts the jobs 0 to JOBS - 1 into it, and as
`… drain URL MODE BATCH`, which meets the others at the starting line and works until nothing is left.
"""
