"""A small CMS on one port: ReqMgr2, DBS, Rucio and CRIC over HTTP, kept in one SQLite file.

The adapters of `cms/` talk to it exactly as to the real services. Faults are made on demand through
`/lab/faults`, data is added through `/lab/…`; nothing else knows that this is not the real world.
"""
