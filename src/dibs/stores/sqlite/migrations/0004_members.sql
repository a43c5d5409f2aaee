-- Enrolled agents. A claim in such an agent's name must stay within its limit.
CREATE TABLE member (
    agent       TEXT    PRIMARY KEY,
    role        TEXT    NOT NULL,
    can         TEXT    NOT NULL,
    task_limit  INTEGER NOT NULL,
    enrolled_at INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL -- when it last asked for work
) STRICT, WITHOUT ROWID;

-- Tasks that are assigned to an agent.
CREATE INDEX task_assigned ON task (assigned_to, status) WHERE assigned_to IS NOT NULL;
