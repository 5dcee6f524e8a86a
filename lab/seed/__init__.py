"""Input data of a lab: event files at the sites, their catalogue entries, and requests for them."""
