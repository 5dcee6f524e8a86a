"""Pages of the console: each declared once; URL, menu entry and search result follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from console.fragments import Fragment
from wms2_project.access.roles import role_of
from wms2_project.errors import NotFound

Extra = Callable[[HttpRequest, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page with one live fragment. What depends on the person is in `person`, outside the fragment."""

    fragment: Fragment
    title: str
    route: str = ""  # below /admin/console/; the fragment's name if empty
    about: str = ""  # a sentence for the search
    template: str = "console/page.html"
    person: Extra = lambda request, of: {}

    @property
    def name(self) -> str:
        return self.fragment.name

    def view(self, request: HttpRequest, of: str = "") -> HttpResponse:
        """Render the page. Without a part of the route the address's query is what the fragment is about."""
        if role_of(request.user) < self.fragment.role:
            raise PermissionDenied
        subject = of or request.GET.urlencode()
        context = admin.site.each_context(request) | {
            "title": of or self.title,
            "page": self,
            "fragment": self.name,
            "of": subject,
        }
        try:
            context |= dict(self.person(request, subject))
            return TemplateResponse(request, self.template, context).render()
        except NotFound as error:
            raise Http404 from error

    def path(self) -> URLPattern:
        """Return the URL pattern, behind the console's login."""
        return path(self.route or self.name, admin.site.admin_view(self.view), name=self.name)
