-- Which store this is, and how often its content was replaced as a whole. A process that opened one store never writes to
-- another.
CREATE TABLE store (
    id         TEXT    NOT NULL,
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO store (id, generation) VALUES (lower(hex(randomblob(16))), 1);
