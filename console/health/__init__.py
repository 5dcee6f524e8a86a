"""Health: components, queues, workers, leases and the sweep."""
