-- Every task that is neither in the queue nor done is in this index, also waiting and canceled ones, in the order of a
-- listing. Pages and counts are read from these two indexes. Done tasks are in neither, so that a finish writes less.
DROP INDEX task_aside;
UPDATE task SET aside = status WHERE opens_at IS NULL AND aside IS NULL AND status <> 'done';
CREATE INDEX task_aside ON task (aside, scope, class_rank, override_rank, priority, queued_at, id) WHERE aside IS NOT NULL;
