-- Times are microseconds since 1970 UTC. Lists and results are JSON text.
CREATE TABLE task (
    key            INTEGER PRIMARY KEY,
    scope          TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    title          TEXT    NOT NULL,
    description    TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    reason         TEXT,
    paused_from    TEXT,
    class_rank     INTEGER NOT NULL,
    override_rank  INTEGER NOT NULL,           -- 0 when a user put the task first, else 1
    priority       REAL    NOT NULL,
    queued_at      INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    started_at     INTEGER,
    finished_at    INTEGER,
    finished_by    TEXT,
    category       TEXT,
    labels         TEXT    NOT NULL DEFAULT '[]',
    deliverable    TEXT,
    steps          TEXT    NOT NULL,
    spec_ref       TEXT,
    ref            TEXT,
    parent         TEXT,
    requires       TEXT    NOT NULL,
    assigned_to    TEXT,
    not_before     INTEGER,
    retries        INTEGER NOT NULL,
    max_retries    INTEGER,
    attempt        INTEGER NOT NULL,           -- rises with every claim: the fence
    ended          TEXT,                       -- the verb that ended the latest attempt
    token          TEXT,                       -- of the latest attempt; outlives its lease so that repeats are recognised
    agent          TEXT,
    run            TEXT,
    holder         TEXT,                       -- NULL when the task is not held
    claimed_at     INTEGER,
    expires_at     INTEGER,
    result         TEXT,
    artifacts      TEXT    NOT NULL,
    unblock_action TEXT,
    next_check_at  INTEGER,
    merged_into    TEXT,
    origin         TEXT,
    extra          TEXT    NOT NULL,
    blockers       INTEGER NOT NULL DEFAULT 0, -- unfinished prerequisites over 'blocks' links
    last_event     INTEGER,                    -- the newest event of the task, from which the others follow
    opens_at       INTEGER,                    -- when the task can be claimed; the largest number means now
    aside          TEXT,                       -- status of a task that is not done and not in the queue
    UNIQUE (scope, id)
) STRICT;

-- First the tasks that become claimable later, soonest first; then the claimable ones, in the claim order. A claim moves
-- the head of the second part to the end of the first, which is the same page while there is one scope. The index also
-- holds the conditions on the agent, so that skipping a task does not read its row.
CREATE INDEX task_queue
    ON task (opens_at, scope, class_rank, override_rank, priority, queued_at, id, requires, assigned_to)
    WHERE opens_at IS NOT NULL;
CREATE INDEX task_aside ON task (aside, scope) WHERE aside IS NOT NULL;
CREATE INDEX task_parent ON task (scope, parent) WHERE parent IS NOT NULL;
CREATE INDEX task_spec ON task (scope, spec_ref) WHERE spec_ref IS NOT NULL;

-- task depends on on_task; both by key. A pair has one link.
CREATE TABLE link (
    task        INTEGER NOT NULL REFERENCES task (key),
    on_task     INTEGER NOT NULL REFERENCES task (key),
    kind        TEXT    NOT NULL,
    weight      REAL    NOT NULL,
    detected_by TEXT    NOT NULL,
    confidence  REAL    NOT NULL,
    PRIMARY KEY (task, on_task)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_on ON link (on_task, kind);

-- Keeps ids as text: an event outlives its task. A task's events form a chain, newest first. An index would do as well,
-- but was a third of all pages that a claim or a finish wrote; the chain writes only rows that are written anyway.
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    scope    TEXT    NOT NULL,
    task     TEXT    NOT NULL,
    verb     TEXT    NOT NULL,
    outcome  TEXT    NOT NULL,
    agent    TEXT,
    run      TEXT,
    attempt  INTEGER,
    source   TEXT,
    target   TEXT,
    reason   TEXT,
    detail   TEXT    NOT NULL,
    previous INTEGER
) STRICT;
