"""A store in a Neo4j database, for fleets on any number of hosts whose work is a graph."""
