#!/bin/sh
# An example of the command of a worker. Replace it with your agent; docs/howto/workers.md lists its variables.
set -eu
echo "Working on $DIBS_TASK_ID"
