"""A fleet of requests in every state, for trying the console and for pictures. Only in the lab."""
