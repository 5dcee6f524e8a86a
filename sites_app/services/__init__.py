"""Services of sites: CRIC synchronisation, operator settings, bans and measured slots."""
