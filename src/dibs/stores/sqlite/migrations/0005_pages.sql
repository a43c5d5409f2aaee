-- What is not in the queue is all aside from it, what waits and what is finished too, and in the order of a listing: a
-- page is read, and everything is counted, from these two indexes.
DROP INDEX task_aside;
UPDATE task SET aside = status WHERE opens_at IS NULL AND aside IS NULL;
CREATE INDEX task_aside ON task (aside, scope, class_rank, override_rank, priority, queued_at, id) WHERE aside IS NOT NULL;
