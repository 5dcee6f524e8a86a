"""The page of one request."""
