"""The strip of statuses above the list of requests."""
