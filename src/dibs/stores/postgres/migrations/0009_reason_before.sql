-- The reason of a task before it was paused, which `resume` restores.
ALTER TABLE task ADD COLUMN reason_before text;
