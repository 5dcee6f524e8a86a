"""A small grid on loopback: a private CA, a token issuer, and one XRootD server per site.

Each site's files lie in a directory of its own. Other sites reach them only through the site's server, over
TLS and with a token whose scopes allow it. `description.py` says where everything is, `faults.py` breaks it
on demand.
"""
