-- Registered agents, for people to look at. They affect no claim and are not exported.
CREATE TABLE agent (
    id         TEXT    PRIMARY KEY,
    host       TEXT,
    pid        INTEGER,
    started_at INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
