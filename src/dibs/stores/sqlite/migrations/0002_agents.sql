-- Who has said that it is at work: for people to look at. It gates nothing and is no part of an export.
CREATE TABLE agent (
    id         TEXT    PRIMARY KEY,
    host       TEXT,
    pid        INTEGER,
    started_at INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
