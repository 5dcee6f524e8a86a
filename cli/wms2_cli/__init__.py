"""`wms2`, the command line client: REST only, without Django or HTCondor.

Commands that change something are built from `operations.json`, the catalogue of operations.
"""
