"""PostgreSQL: dibs, bare floors and other queues, in turn, on one throwaway server that keeps fsync on."""
