"""Appearance and menu of the console."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy

from wms2_project.settings.environment import env


def _stylesheet(request: HttpRequest) -> str:
    return static("console/console.css")


def _page_styles(request: HttpRequest) -> str:
    return static("console/pages.css")


def _script(request: HttpRequest) -> str:
    return static("console/boot.js")


def _icon(request: HttpRequest) -> str:
    return static("console/icon.svg")


def _administers(request: HttpRequest) -> bool:
    return bool(request.user.is_superuser)


def _item(title: str, icon: str, view: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(view), **more}


# Port of the streams process; 0: at /streams/ of the page's own address, by the proxy
STREAMS_PORT = env.int("WMS2_STREAMS_PORT", default=0)
WEB_ADDRESS = env.str("WMS2_WEB_ADDRESS", default="")  # of the web process, which the streams process watches
CONSOLE_URL = env.str("WMS2_URL", default="")  # of the proxy, as browsers use it
FLOWER_URL = env.str("FLOWER_URL", default="")
_OPERATORS = "wms2_project.console.may_operate"
_REQUESTORS = "wms2_project.console.may_submit"
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
    "STYLES": [_stylesheet, _page_styles],
    "SCRIPTS": [_script],
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _icon}],
    "SIDEBAR": {
        "show_all_applications": False,
        "navigation": [
            {
                "items": [
                    _item("Home", "home", "admin:index"),
                    _item("Requests", "list_alt", "admin:requests_app_request_changelist"),
                    _item("Submit", "add_circle", "console:submit", permission=_REQUESTORS),
                    _item("Alerts", "notifications", "console:alerts"),
                    _item("Admission", "tune", "console:admission"),
                    _item("Quotas", "speed", "admin:requests_app_quota_changelist", permission=_OPERATORS),
                    _item("Sites", "dns", "console:sites"),
                    _item("Outputs", "package_2", "console:outputs"),
                    _item("Guide", "help", "console:guide"),
                    _item("Bans", "block", "admin:sites_app_siteban_changelist"),
                    _item("Quarantine", "gpp_bad", "admin:dags_app_quarantinedreplica_changelist"),
                ],
            },
            {
                "title": "Chains",
                "separator": True,
                "items": [
                    _item("Chains", "linked_services", "admin:chains_app_chain_changelist"),
                    _item("Templates", "schema", "admin:chains_app_template_changelist"),
                    _item("Announcements", "campaign", "admin:chains_app_announcement_changelist"),
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
                    _item("Runners", "linked_services", "admin:dags_app_runner_changelist"),
                    _item("Uploads of runners", "package_2", "admin:dags_app_runneroutput_changelist"),
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
                "title": "System",
                "separator": True,
                "items": [
                    _item("Health", "monitor_heart", "console:health"),
                    _item("Settings", "settings", "console:settings", permission=_OPERATORS),
                    _item("Audit", "history", "console:audit", permission=_OPERATORS),
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
                    _item("People", "group", "admin:auth_user_changelist", permission=_administers),
                    _item("Roles", "badge", "admin:auth_group_changelist", permission=_administers),
                    _item("API documentation", "api", "docs"),
                ],
            },
        ],
    },
}
