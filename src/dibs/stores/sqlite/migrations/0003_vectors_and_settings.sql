-- The vector of a task's text: little-endian 4-byte floats, of unit length. In a separate table, so that no claim reads it.
CREATE TABLE vector (
    task INTEGER PRIMARY KEY REFERENCES task (key) ON DELETE CASCADE,
    unit BLOB    NOT NULL
) STRICT;

CREATE TABLE setting (
    scope TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
