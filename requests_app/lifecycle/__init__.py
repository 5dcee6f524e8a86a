"""Request lifecycle: select due requests, run the handler of their status, apply its outcome."""
