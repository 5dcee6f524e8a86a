"""Clients of the CMS services: ReqMgr2, DBS, Rucio and CRIC. No Django here."""
