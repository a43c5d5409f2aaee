-- What is neither in the queue nor done is all aside from it, what waits and what was canceled too, and in the order of a
-- listing: a page is read, and everything is counted, from these two indexes. What is done is in neither, so that a finish
-- has no more to write.
DROP INDEX task_aside;
UPDATE task SET aside = status WHERE opens_at IS NULL AND aside IS NULL AND status <> 'done';
CREATE INDEX task_aside ON task (aside, scope, class_rank, override_rank, priority, queued_at, id) WHERE aside IS NOT NULL;
