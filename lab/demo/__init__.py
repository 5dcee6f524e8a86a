"""The demonstration: three requests from submission to announcement, through the REST API only."""
