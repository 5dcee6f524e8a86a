"""Base of the console: Django's admin with unfold's look. Pages are read-only.

Every change goes through a service and requires a reason first. A refusal is shown with the service's
message. unfold is imported only here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar, cast

from django import forms
from django.contrib.admin import ShowFacets, SimpleListFilter
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold import decorators
from unfold.admin import ModelAdmin, TabularInline
from unfold.enums import ActionVariant
from unfold.forms import (
    AdminOwnPasswordChangeForm,
    AdminPasswordChangeForm,
    AuthenticationForm,
    UserChangeForm,
    UserCreationForm,
)
from unfold.views import ChangeList
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from wms2_project.access.proxies import client_address
from wms2_project.access.roles import Role, role_of
from wms2_project.access.throttles import address_block, seconds_to_wait
from wms2_project.markup import clipped, icon, progress_bar, status
from wms2_project.words import age_of, size_of

__all__ = [
    "ActionVariant",
    "AdminOwnPasswordChangeForm",
    "AdminPasswordChangeForm",
    "BoundedPaginator",
    "ChangeList",
    "LoginForm",
    "ModelAdmin",
    "ReadOnlyAdmin",
    "ReadOnlyTable",
    "Table",
    "UnfoldAdminIntegerFieldWidget",
    "UnfoldAdminSelectWidget",
    "UnfoldAdminTextInputWidget",
    "UnfoldAdminTextareaWidget",
    "UnfoldBooleanWidget",
    "UserChangeForm",
    "UserCreationForm",
    "ValueFilter",
    "action",
    "address_of",
    "age_of",
    "clipped",
    "coloured",
    "display",
    "icon",
    "link",
    "progress_bar",
    "request_link",
    "row_at",
    "size_of",
    "status",
]
Table = dict[str, Any]  # headers and rows, as unfold's table component takes them
Method = TypeVar("Method", bound=Callable[..., Any])


def action(**options: Any) -> Callable[[Method], Method]:
    """Mark a method as button or bulk action. unfold's decorator, typed."""
    return cast(Callable[[Method], Method], decorators.action(**options))


def display(*, label: Mapping[str, str] | None = None, **options: Any) -> Callable[[Method], Method]:
    """Mark a method as column. unfold's decorator, typed.

    With tones as `label` the column is a status: the method returns it, or it and its text.
    """

    def mark(method: Method) -> Method:
        shown = method if label is None else _as_status(method, label)
        return cast(Method, decorators.display(**options)(shown))

    return mark


def _as_status(method: Callable[..., Any], tones: Mapping[str, str]) -> Callable[..., SafeString]:
    @functools.wraps(method)
    def shown(self: Any, row: Any) -> SafeString:
        found = method(self, row)
        value, text = found if isinstance(found, tuple) else (found, str(found))
        return status(text, tones.get(value, ""))

    return shown


def coloured(colours: Mapping[str, str], *, column: str = "status") -> Any:
    """Return a column that shows a status in its colour."""

    @display(description=column, ordering=column, label=colours)
    def shown(self: Any, row: Any) -> tuple[str, str]:
        value = str(getattr(row, column))
        return value, value.replace("_", " ")

    return shown


def may_operate(request: HttpRequest) -> bool:
    """Return whether the menu shows pages of operators."""
    return role_of(request.user) >= Role.OPERATOR


def may_submit(request: HttpRequest) -> bool:
    """Return whether the menu shows the page of submissions."""
    return role_of(request.user) >= Role.REQUESTOR


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts up to 10,000 rows. Larger lists need a filter."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        rows = self.object_list
        return rows.order_by()[: self.most].count() if isinstance(rows, QuerySet) else len(rows)


class LoginForm(AuthenticationForm):  # type: ignore[misc]
    """The console's login form. Attempts are counted before the password is checked."""

    def clean(self) -> Any:
        """Raise after too many attempts from one address, or for one name from all addresses.

        Attempts refused by the address limit do not count for the name, so one address cannot lock a name for
        others.
        """
        name = str(self.cleaned_data.get("username", "")).lower()
        wait = seconds_to_wait("logins", address_block(client_address(self.request)))
        if wait := wait or seconds_to_wait("login_names", name):
            raise forms.ValidationError(f"Too many attempts. Try again in {wait:.0f} s.")
        return super().clean()

    def confirm_login_allowed(self, user: Any) -> None:
        """Raise for an account without a role."""
        super().confirm_login_allowed(user)
        if role_of(user) < Role.VIEWER:
            raise forms.ValidationError("This account has no role. Ask an administrator for one.")


def _never(self: Any, request: HttpRequest, obj: Model | None = None) -> bool:
    return False


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]
    """Base of pages: rows for viewers, actions for operators. Rows cannot be added, changed or deleted."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # facets count all rows once per choice
    list_per_page = 50
    list_fullwidth = True
    list_disable_select_all = True  # actions apply only to rows that were selected one by one
    change_list_template = "console/live_list.html"
    when_empty = ""  # a sentence for an empty list: where rows come from
    topics: ClassVar[tuple[str, ...]] = ()  # changes after which open lists are read again

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return role_of(request.user) >= Role.VIEWER

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return whether the user may use the actions of the page."""
        return role_of(request.user) >= Role.OPERATOR

    has_add_permission = has_change_permission = has_delete_permission = _never

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        """Return the fields that have a value."""
        names = super().get_fields(request, obj)
        return [name for name in names if getattr(obj, str(name), name) not in (None, "", {}, [])]

    @display(description="request")
    def of_request(self, row: Any) -> SafeString | str:
        """Link to the request of the row; rows without a workflow apply to all requests."""
        return request_link(row.workflow.request_name) if row.workflow else "all"

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        """Show a row without Django's history, which is always empty."""
        context = {"show_history": False} | (extra_context or {})
        answer: HttpResponse = super().changeform_view(request, object_id, form_url, context)
        return answer

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list with the topics that it follows. Its title is that of the menu, also in a tab."""
        own = {"topics": " ".join(self.topics), "title": capfirst(self.opts.verbose_name_plural)}
        context = own | (extra_context or {})
        answer: HttpResponse = super().changelist_view(request, context)
        return answer

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row of the page; None if it does not exist."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)


class ValueFilter(SimpleListFilter):
    """Filter by a column, with fewer choices than the column has values."""

    parameter_name: str

    def values(self) -> Iterable[str]:
        """Return the values to choose from; the chosen one is added."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.value()
        values = sorted({*self.values()} | ({chosen} if chosen else set()))
        return [(value, self.label_of(value)) for value in values]

    def label_of(self, value: str) -> str:
        return value

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.parameter_name: self.value()}) if self.value() else queryset


class ReadOnlyTable(TabularInline):  # type: ignore[misc]
    """Table of related rows on a page."""

    extra = 0
    can_delete = False
    per_page = 50
    show_change_link = False
    hide_title = True

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return role_of(request.user) >= Role.VIEWER

    has_add_permission = has_change_permission = _never


def link(text: str, view: str, *args: Any, query: str = "") -> SafeString:
    """Return a link to a page of the console."""
    return _anchor(text, address_of(view, *args) + (f"?{query}" if query else ""))


def address_of(view: str, *args: Any) -> str:
    """Return the address of a page. Keys are quoted: the admin decodes `_CE` in a site's name otherwise."""
    return reverse(view, args=[quote(one) for one in args])


def row_at(rows: type[Model] | QuerySet[Any], object_id: str) -> Any:
    """Return the row of a button's address. Raise Http404 if there is none or the key is malformed."""
    key = unquote(object_id)
    if "\0" in key:  # PostgreSQL rejects it
        raise Http404
    try:
        return get_object_or_404(rows, pk=key)
    except (ValidationError, ValueError) as error:
        raise Http404 from error


def _anchor(text: str, url: str) -> SafeString:
    return format_html('<a class="wms2-link" href="{}">{}</a>', url, text)


def request_link(name: str) -> SafeString:
    """Return a link to the page of the request."""
    return _anchor(name, reverse("admin:requests_app_request_change", args=[name]))
