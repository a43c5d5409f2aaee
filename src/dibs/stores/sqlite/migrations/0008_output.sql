-- The output of attempts, in pieces: `start` and `size` in bytes of UTF-8. In a separate table, so that no claim reads it.
CREATE TABLE output (
    task    INTEGER NOT NULL REFERENCES task (key) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    text    TEXT    NOT NULL,
    PRIMARY KEY (task, attempt, start)
) STRICT;
