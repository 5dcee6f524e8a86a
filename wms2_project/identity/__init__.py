"""Who is calling: API tokens, certificates a trusted proxy vouches for, bearer tokens of known issuers."""
