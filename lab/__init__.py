"""The embedded stack: PostgreSQL, Redis, HTCondor, simulated CMS services and WMS2 on one machine.

``./wms2`` prepares Python and HTCondor, drops root, and starts ``python -m lab``.
"""
