"""The keyboard palette: one search over requests, sites, datasets, pages and actions."""
