"""Sites: slots, failures by cause, bans, drains and storage; one page per site with its history."""
