"""The REST API: closed by default, problem details for errors, cursor pagination."""

from __future__ import annotations

from wms2_project.settings.environment import env

THROTTLE_RATES = {
    "user": env.str("WMS2_THROTTLE_USER", default="6000/minute"),
    "anonymous": env.str("WMS2_THROTTLE_ANONYMOUS", default="120/minute"),
    "logins": env.str("WMS2_THROTTLE_LOGINS", default="20/minute"),  # passwords tried, per address
    "login_names": env.str("WMS2_THROTTLE_LOGIN_NAMES", default="100/minute"),  # per name, all addresses
    "failures": env.str("WMS2_THROTTLE_FAILURES", default="120/minute"),  # wrong credentials, per address
    "job": env.str("WMS2_THROTTLE_JOB", default="600/minute"),  # calls of a runner, or for a group's runners
    "job_failures": env.str("WMS2_THROTTLE_JOB_FAILURES", default="6000/minute"),  # wrong tokens, per address
}
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "wms2_project.access.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
        "wms2_project.access.authentication.CertificateAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["wms2_project.access.roles.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "wms2_project.api.pagination.CursorPages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": [
        "wms2_project.access.throttles.UserThrottle",
        "wms2_project.access.throttles.AddressThrottle",
    ],
    "EXCEPTION_HANDLER": "wms2_project.api.errors.problem_details",
    "PAGE_SIZE": 50,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "WMS2",
    "DESCRIPTION": (
        "Requests in, registered and protected datasets out. Every error is an RFC 9457 problem with a"
        " `code`, a `cure`, and `errors` by field; a method that is not offered is a 405 with `Allow`."
    ),
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["wms2_project.access.roles.RolePermission"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,  # bodies of PATCH have a required field (reason)
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "wms2_project.api.docs.close_bodies",
        "wms2_project.api.docs.describe_queries",
    ],
    "ENUM_NAME_OVERRIDES": {
        "RequestStatus": "requests_app.api.requests.STATUSES",
        "DAGStatus": "dags_app.api.views.STATUSES",
        "DAGKind": "dags_app.api.views.KINDS",
        "RunnerEventKind": "requests_app.api.runners.EVENT_KINDS",
        "SiteStatus": "sites_app.api.views.STATUSES",
        "HealthStatus": "wms2_project.api.system.STATUSES",
        "TemplateStatus": "chains_app.api.templates.STATUSES",
        "ChainStatus": "chains_app.api.chains.STATUSES",
        "AnnouncementStatus": "chains_app.api.chains.ANNOUNCEMENT_STATUSES",
        "ChainStepStatus": "chains_app.api.serializers.STEP_STATUSES",
        "ChainDatasetStatus": "chains_app.api.serializers.DATASET_STATUSES",
    },
}
