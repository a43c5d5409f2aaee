"""PostgreSQL: dibs, bare floors and other queues, one after the other, on a temporary server with fsync on."""
