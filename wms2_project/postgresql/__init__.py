"""Django's PostgreSQL backend with bounded waits in the web process."""
