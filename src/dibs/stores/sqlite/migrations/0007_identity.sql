-- The identity of this store, and the number of times that its whole content was replaced. A process that opened one store
-- never writes to another.
CREATE TABLE store (
    id         TEXT    NOT NULL,
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO store (id, generation) VALUES (lower(hex(randomblob(16))), 1);
