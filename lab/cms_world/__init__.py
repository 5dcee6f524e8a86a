"""Simulated CMS services on one port: ReqMgr2, DBS, Rucio and CRIC over HTTP, stored in one SQLite file.

The adapters of `cms/` use them exactly like the real services. Faults are injected through `/lab/faults`,
data is added through `/lab/…`.
"""
