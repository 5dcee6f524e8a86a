"""Console pages of requests, alerts and limits. Importing the package registers them."""

from requests_app.admin import alerts, limits, requests

__all__ = ["alerts", "limits", "requests"]
