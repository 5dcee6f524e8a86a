"""A laboratory in virtual time: the services, tasks and SQL of WMS2 on a simulated schedd, pool and CMS.

`python -m lab.simulator` runs fault schedules or months of operation, deterministic by seed. PostgreSQL is
real. The product is unchanged: adapters, clocks and message delivery are injected ([ADR
18](../../docs/adr/0018-virtual-time-by-search-path.md)).
"""
