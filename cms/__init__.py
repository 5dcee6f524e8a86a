"""The CMS services WMS2 speaks to: ReqMgr2, DBS, Rucio and CRIC, one client each. No Django here."""
