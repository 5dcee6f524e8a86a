"""Django's PostgreSQL backend, with waits that end in the web process."""
