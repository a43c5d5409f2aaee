"""A store in a PostgreSQL database, for fleets on any number of hosts."""
