"""Services of chains, called by the API, console, commands and tasks."""
