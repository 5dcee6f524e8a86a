"""Access: who calls (tokens, certificates, issuers), what they may do, and the audit of what they did."""
