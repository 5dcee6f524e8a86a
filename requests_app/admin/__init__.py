"""Console pages of requests, alerts and quotas. Importing the package registers them."""

from requests_app.admin import alerts, quotas, requests

__all__ = ["alerts", "quotas", "requests"]
