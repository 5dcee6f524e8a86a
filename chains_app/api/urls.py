"""URLs of templates, chains and announcements."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from chains_app.api import chains, templates
from chains_app.operations import ANNOUNCEMENT_OPERATIONS, CHAIN_OPERATIONS, TEMPLATE_OPERATIONS
from wms2_project.api.reads import read_paths
from wms2_project.operations.rest import operation_paths


class TemplateNameConverter(StringConverter):
    """Path converter of template names."""

    regex = "[A-Za-z][A-Za-z0-9_]{0,59}"


register_converter(TemplateNameConverter, "template_name")

urlpatterns = [
    path("templates", templates.TemplateListView.as_view(), name="template-list"),
    path("templates/check", templates.TemplateCheckView.as_view(), name="template-check"),
    path(
        "templates/<template_name:template>/<int:number>",
        templates.TemplateView.as_view(),
        name="template-detail",
    ),
    path("chains", chains.ChainListView.as_view(), name="chain-list"),
    path("chains/<int:number>", chains.ChainView.as_view(), name="chain-detail"),
    path("chains/<int:number>/events", chains.ChainEventView.as_view(), name="chain-events"),
    path("announcements", chains.AnnouncementListView.as_view(), name="announcement-list"),
    path(
        "announcements/<int:announcement_id>", chains.AnnouncementView.as_view(), name="announcement-detail"
    ),
    path("datasets", chains.DatasetView.as_view(), name="dataset-list"),
    *read_paths(chains, templates),
    *operation_paths((*TEMPLATE_OPERATIONS, *CHAIN_OPERATIONS, *ANNOUNCEMENT_OPERATIONS)),
]
