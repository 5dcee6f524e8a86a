"""Input data for a lab: event files at the sites, their entries in the small CMS, and requests for them."""
