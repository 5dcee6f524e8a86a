"""A small grid on loopback: a private CA, a token issuer, and one XRootD server per site.

Each site's files are in a separate directory. Other sites reach them only through the site's server, over TLS
and with a token whose scopes allow it. `description.py` has the addresses and paths, `faults.py` injects
faults.
"""
