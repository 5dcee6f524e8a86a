"""The embedded everything: real PostgreSQL, Redis and HTCondor, a small CMS, and WMS2 on top, on one machine.

``./wms2`` prepares Python and HTCondor, drops root, and hands over to ``python -m lab``.
"""
