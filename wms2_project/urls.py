"""URLs: the console at /admin/, the REST API at /api/v1/."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from wms2_project.admin import change_own_password
from wms2_project.api.errors import unknown_url

urlpatterns = [
    path("api/v1/", include("requests_app.api.urls")),
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/password_change/", admin.site.admin_view(change_own_password)),
    path("admin/console/", include("console.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/", include("wms2_project.api.urls")),
    path("api/v1/", include("dags_app.api.urls")),
    path("api/v1/", include("sites_app.api.urls")),
    path("api/v1/", include("chains_app.api.urls")),
    re_path(r"^api(?:/|$)", unknown_url),
]
if settings.OIDC_RP_CLIENT_ID:
    urlpatterns.append(path("oidc/", include("mozilla_django_oidc.urls")))
handler400 = "wms2_project.api.errors.bad_request"
handler403 = "wms2_project.api.errors.forbidden"
handler404 = "wms2_project.api.errors.not_found"
handler500 = "wms2_project.api.errors.server_error"
