"""Console pages of pull mode: runners, and the uploads that they recorded."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from dags_app.models import Runner, RunnerOutput
from dags_app.states import LIVE_RUNNER, RunnerOutcome, RunnerState, UploadState
from wms2_project.console import (
    ReadOnlyAdmin,
    age_of,
    clipped,
    coloured,
    display,
    link,
    request_link,
    size_of,
)

OF_WORKFLOW = "workflow__id__exact"
RUNNER_COLOURS: dict[str, str] = {
    RunnerState.RUNNING: "primary", RunnerState.RECORDED: "info", RunnerOutcome.PROCESSED: "success",
    RunnerOutcome.UNPROCESSED: "warning", RunnerOutcome.FAILED: "danger", RunnerOutcome.LOST: "danger",
}  # fmt: skip
UPLOAD_COLOURS: dict[str, str] = {
    UploadState.RECORDED: "info", UploadState.CONFIRMED: "success", UploadState.VOID: "warning",
}  # fmt: skip


@admin.register(Runner)
class RunnerAdmin(ReadOnlyAdmin):
    """Runners of one workflow, or the running ones of all workflows."""

    when_empty = "Requests in pull mode start runners, which read files that are lent to them."
    list_display = (
        "node", "of_request", "shown_state", "site", "shown_files", "shown_heartbeat", "exit_code",
        "shown_message", "started_at",
    )  # fmt: skip
    fields = (
        "of_request", "round", "node", "attempt", "htcondor_id", "site", "slot", "state", "outcome",
        "shown_files", "exit_code", "message", "uploads", "started_at", "heartbeat_at", "ended_at",
    )  # fmt: skip
    list_filter = ("state", "outcome")
    search_fields = ("workflow__request_name", "site", "htcondor_id")
    search_help_text = "Part of the name of a request or site, or an HTCondor id"
    list_select_related = ("workflow",)
    ordering = ("-started_at", "-id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Runner]:
        """Return the rows. Ended runners are listed by workflow only, for which there is an index."""
        rows: QuerySet[Runner] = super().get_queryset(request)
        match = request.resolver_match
        listed = match is not None and str(match.url_name).endswith("_changelist")
        everywhere = listed and OF_WORKFLOW not in request.GET
        return rows.filter(state__in=sorted(LIVE_RUNNER)) if everywhere else rows

    @display(description="state", label=RUNNER_COLOURS)
    def shown_state(self, row: Runner) -> tuple[str, str]:
        """Return the outcome of an ended runner, else its state."""
        value = str(row.outcome or row.state)
        return value, value

    @display(description="files processed")
    def shown_files(self, row: Runner) -> str:
        return f"{row.files_processed} of {row.files_lent}"

    @display(description="heartbeat", ordering="heartbeat_at")
    def shown_heartbeat(self, row: Runner) -> str:
        """Return the age of the last heartbeat; a dash for an ended runner."""
        return (
            "–" if row.state == RunnerState.ENDED else f"{age_of(row.heartbeat_at, now=timezone.now())} ago"
        )

    @display(description="message")
    def shown_message(self, row: Runner) -> SafeString:
        return clipped(row.message)

    @display(description="uploads")
    def uploads(self, row: Runner) -> SafeString:
        return link(
            "what it recorded", "admin:dags_app_runneroutput_changelist", query=f"runner__id__exact={row.pk}"
        )


@admin.register(RunnerOutput)
class RunnerOutputAdmin(ReadOnlyAdmin):
    """Outputs that runners recorded. Void ones were never confirmed and may be on a storage."""

    list_display = ("lfn", "of_request", "shown_state", "shown_sites", "shown_size", "dataset_name")
    fields = ("lfn", "of_request", "runner", "state", "shown_sites", "shown_size", "adler32", "dataset_name")
    list_filter = ("state",)
    search_fields = ("runner__workflow__request_name", "lfn")
    search_help_text = "Part of the name of a request or file"
    list_select_related = ("runner__workflow",)
    ordering = ("-id",)

    @display(description="request")
    def of_request(self, row: RunnerOutput) -> SafeString:
        return request_link(row.runner.workflow.request_name)

    @display(description="site")
    def shown_sites(self, row: RunnerOutput) -> str:
        """Return the site of the upload, or the sites at which it may be."""
        return row.site or ", ".join(row.sites)

    @display(description="size", ordering="size_bytes")
    def shown_size(self, row: RunnerOutput) -> str:
        return size_of(row.size_bytes)

    shown_state = coloured(UPLOAD_COLOURS, column="state")
