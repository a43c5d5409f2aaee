-- What can neither be claimed nor is opened by time, in the order of a listing: what waits, what is held up, what was
-- canceled. Together with `task_claim` and `task_watch` it has every task that is not done, so that pages are read and
-- tasks counted from indexes. A claim puts nothing into it, nor does a finish.
CREATE INDEX task_rest ON task (scope, status, class_rank, override_rank, priority, queued_at, id)
    WHERE NOT claimable AND wake_at IS NULL AND status <> 'done';
