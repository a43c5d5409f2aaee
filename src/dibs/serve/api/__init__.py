"""The API over HTTP, by subject. Each module lists its routes in ROUTES; `routes` joins them."""
