-- Who belongs to the fleet. Whoever claims under such a name is held to its limit, by who has its row locked.
CREATE TABLE member (
    agent       text COLLATE "C" PRIMARY KEY,
    role        text        NOT NULL,
    can         text[]      NOT NULL,
    task_limit  integer     NOT NULL,
    enrolled_at timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL -- when it last asked for work
);

-- What waits for somebody in particular.
CREATE INDEX task_assigned ON task (assigned_to, status) WHERE assigned_to IS NOT NULL;
