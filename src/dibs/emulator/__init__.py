"""Stand-ins for services that no test can reach."""
