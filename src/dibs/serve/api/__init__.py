"""What can be asked over HTTP, by subject. Each module has its entries of the one table in ROUTES."""
