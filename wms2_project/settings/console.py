"""Appearance and menu of the console."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _stylesheet(request: HttpRequest) -> str:
    return static("console/console.css")


def _icon(request: HttpRequest) -> str:
    return static("console/icon.svg")


def _administers(request: HttpRequest) -> bool:
    return bool(request.user.is_superuser)


def _item(title: str, icon: str, view: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(view), **more}


_OPERATORS = "wms2_project.console.may_operate"
FORMAT_MODULE_PATH = ["wms2_project.formats"]
LOGIN_REDIRECT_URL = reverse_lazy("admin:index")
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "WMS2",
    "SITE_HEADER": "WMS2",
    "SITE_URL": None,
    "SITE_SUBHEADER": "all times are UTC",
    "SITE_SYMBOL": "hub",
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_HISTORY": False,
    "LOGIN": {"form": "wms2_project.console.LoginForm"},
    "STYLES": [_stylesheet],
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _icon}],
    "DASHBOARD_CALLBACK": "requests_app.admin.overview.add_overview",
    "SIDEBAR": {
        "show_all_applications": False,
        "navigation": [
            {
                "items": [
                    _item("Overview", "dashboard", "admin:index"),
                    _item("Requests", "list_alt", "admin:requests_app_request_changelist"),
                    _item("Alerts", "notifications", "admin:requests_app_alert_changelist"),
                    _item("Admission", "tune", "admin:requests_app_admissionconfig_changelist"),
                    _item("Quotas", "speed", "admin:requests_app_quota_changelist", permission=_OPERATORS),
                    _item("Sites", "dns", "admin:sites_app_site_changelist"),
                    _item("Bans", "block", "admin:sites_app_siteban_changelist"),
                    _item("Quarantine", "gpp_bad", "admin:dags_app_quarantinedreplica_changelist"),
                ],
            },
            {
                "title": "Execution",
                "separator": True,
                "items": [
                    _item("Schedds", "dns", "admin:dags_app_schedd_changelist"),
                    _item("DAGs", "account_tree", "admin:dags_app_dag_changelist"),
                    _item("Merge groups", "merge", "admin:dags_app_mergegroup_changelist"),
                    _item("Input files", "input", "admin:dags_app_inputfile_changelist"),
                    _item("Rounds", "replay", "admin:dags_app_round_changelist"),
                    _item("Workflows", "schema", "admin:dags_app_workflow_changelist"),
                ],
            },
            {
                "title": "Outputs",
                "separator": True,
                "items": [
                    _item("Blocks", "package_2", "admin:outputs_app_outputblock_changelist"),
                    _item("Datasets", "database", "admin:outputs_app_outputdataset_changelist"),
                    _item("Files", "description", "admin:outputs_app_outputfile_changelist"),
                    _item("Rucio rules", "gavel", "admin:outputs_app_ruciorule_changelist"),
                ],
            },
            {
                "title": "Access",
                "separator": True,
                "items": [
                    _item("API tokens", "key", "admin:wms2_project_apitoken_changelist"),
                    _item(
                        "Identities",
                        "link",
                        "admin:wms2_project_identity_changelist",
                        permission=_administers,
                    ),
                    _item(
                        "Audit", "history", "admin:wms2_project_auditevent_changelist", permission=_OPERATORS
                    ),
                    _item("People", "group", "admin:auth_user_changelist", permission=_administers),
                    _item("Roles", "badge", "admin:auth_group_changelist", permission=_administers),
                    _item("API documentation", "api", "docs"),
                ],
            },
        ],
    },
}
