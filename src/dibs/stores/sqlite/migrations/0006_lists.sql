-- A listing that includes finished tasks reads this index in order. Only edits change its columns, so claims and finishes
-- do not write to it.
CREATE INDEX task_order ON task (scope, class_rank, override_rank, priority, queued_at, id);

-- The number of tasks of a scope: 'all' of them, the 'open' ones, and those aside from the queue by status. The number of
-- finished tasks follows from these, so that a finish does not write here.
CREATE TABLE tally (
    scope  TEXT    NOT NULL,
    state  TEXT    NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (scope, state)
) STRICT, WITHOUT ROWID;
INSERT INTO tally
SELECT scope, 'all', count(*) FROM task GROUP BY scope
UNION ALL
SELECT scope, 'open', count(*) FROM task WHERE opens_at = 9223372036854775807 GROUP BY scope
UNION ALL
SELECT scope, aside, count(*) FROM task WHERE aside IS NOT NULL GROUP BY scope, aside;

CREATE TRIGGER tally_new AFTER INSERT ON task BEGIN
    INSERT INTO tally
    SELECT new.scope, column1, 1
    FROM (VALUES ('all'), (CASE WHEN new.opens_at = 9223372036854775807 THEN 'open' END), (new.aside))
    WHERE column1 IS NOT NULL
    ON CONFLICT (scope, state) DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER tally_gone AFTER DELETE ON task BEGIN
    UPDATE tally SET number = number - 1
    WHERE scope = old.scope
      AND state IN ('all', CASE WHEN old.opens_at = 9223372036854775807 THEN 'open' END, old.aside);
END;
CREATE TRIGGER tally_opened AFTER UPDATE OF opens_at ON task
WHEN (old.opens_at IS 9223372036854775807) <> (new.opens_at IS 9223372036854775807) BEGIN
    INSERT INTO tally VALUES (new.scope, 'open', CASE WHEN new.opens_at IS 9223372036854775807 THEN 1 ELSE -1 END)
    ON CONFLICT (scope, state) DO UPDATE SET number = number + excluded.number;
END;
CREATE TRIGGER tally_aside AFTER UPDATE OF aside ON task WHEN old.aside IS NOT new.aside BEGIN
    UPDATE tally SET number = number - 1 WHERE scope = old.scope AND state = old.aside;
    INSERT INTO tally SELECT new.scope, new.aside, 1 WHERE new.aside IS NOT NULL
    ON CONFLICT (scope, state) DO UPDATE SET number = number + 1;
END;
