"""The project's URLs with login at an issuer enabled."""

from __future__ import annotations

from django.urls import include, path

from wms2_project import urls

urlpatterns = [*urls.urlpatterns, path("oidc/", include("mozilla_django_oidc.urls"))]
handler400, handler500 = urls.handler400, urls.handler500
