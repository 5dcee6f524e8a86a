"""Console pages of templates, chains and announcements."""

from chains_app.admin import announcements, chains, templates

__all__ = ["announcements", "chains", "templates"]
