-- What a task is about: numbers of 4 bytes, the lowest first, of unit length. Beside the task, so that no claim reads it.
CREATE TABLE vector (
    task bigint PRIMARY KEY REFERENCES task (key) ON DELETE CASCADE,
    unit bytea  NOT NULL
);

CREATE TABLE setting (
    scope text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value json             NOT NULL,
    PRIMARY KEY (scope, name)
);
