"""What the console asks before it acts on a request or on the limits of admission."""

from __future__ import annotations

from typing import Any

from django import forms

from requests_app.services.releasing import Modifications
from requests_app.states import CleanupPolicy
from wms2_project.console import (
    ReasonForm,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)
from wms2_project.errors import InvalidInput
from wms2_project.fields import choices
from wms2_project.grammar import Name, check

EFFECTS = {  # what each action does, told before it is done
    "Submit": "WMS2 takes the draft over as it is: its document cannot be edited any more.",
    "Release": "It waits for admission and goes on with what is not done; what is done is kept.",
    "Rescue": "Its last DAG is submitted again as it is; what is done is kept. It counts as a rescue.",
    "Stop": "Its jobs leave the queue, what is done is kept; then it goes on, unless it is to stay held.",
    "Restart": "It ends, and the same work starts again from nothing as its next version.",
    "Fail": "It ends for good, and its outputs are taken back from DBS and Rucio.",
    "Invalidate outputs": "Its datasets become INVALID in DBS and lose their rules in Rucio.",
    "Share outputs": "It may write into datasets of others. Then submit it, if it is a draft, or release it.",
    "Abort": "It ends for good; its jobs are removed.",
}


class StopForm(ReasonForm):
    """Stop, and what then."""

    hold = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, label="Stay held afterwards instead of resuming"
    )
    field_order = ("reason", "hold")


class PriorityForm(ReasonForm):
    """The new priority."""

    priority = forms.IntegerField(min_value=0, max_value=1_000_000, widget=UnfoldAdminIntegerFieldWidget)
    field_order = ("priority", "reason")


class ResourcesForm(ReasonForm):
    """Where jobs may run, with how much memory, and how many at a time."""

    memory_mb = forms.IntegerField(
        required=False, min_value=1, max_value=1_000_000, widget=UnfoldAdminIntegerFieldWidget,
        label="Memory per job (MB)", help_text="Outranks measurements. Leave empty to go by measurements.",
    )  # fmt: skip
    site_whitelist = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, label="Only at these sites",
        help_text="With blanks between; empty: at every site.",
    )  # fmt: skip
    site_blacklist = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, label="Not at these sites",
        help_text="With blanks between.",
    )  # fmt: skip
    category_throttles = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, label="Most at a time",
        help_text="With blanks between, such as Processing=50 MergeGroup=10.",
    )  # fmt: skip
    field_order = ("memory_mb", "site_whitelist", "site_blacklist", "category_throttles", "reason")


class RestartForm(ReasonForm):
    """The next version, and what becomes of this one's outputs."""

    cleanup_policy = forms.ChoiceField(
        choices=choices(CleanupPolicy), widget=UnfoldAdminSelectWidget, label="This version's outputs"
    )
    field_order = ("reason", "cleanup_policy")


class LimitsForm(ReasonForm):
    """The limits of admission."""

    max_active_dags = forms.IntegerField(
        min_value=0, max_value=100_000, widget=UnfoldAdminIntegerFieldWidget, label="DAGs at a time"
    )
    paused = forms.BooleanField(required=False, widget=UnfoldBooleanWidget, label="Pause admission")
    storage_critical_fraction = forms.FloatField(
        min_value=0.01, max_value=1, widget=UnfoldAdminTextInputWidget, label="Close above this storage use"
    )
    version = forms.IntegerField(widget=forms.HiddenInput)
    field_order = ("max_active_dags", "paused", "storage_critical_fraction", "reason")


class NamesField(forms.CharField):
    """Legal names of one kind, one per line or separated by blanks."""

    def __init__(self, name: Name, **options: Any) -> None:
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}), **options)
        self.name = name

    def clean(self, value: Any) -> tuple[str, ...]:
        """The names, or which of them is none."""
        try:
            return tuple(check(self.name, word) for word in super().clean(value).split())
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error


class ShareForm(ReasonForm):
    """Which datasets of others the request may write into."""

    datasets = NamesField(
        Name.DATASET, label="Output datasets", help_text="Separated by blanks. Leave empty for all of them."
    )
    field_order = ("datasets", "reason")


class ReleaseForm(ReasonForm):
    """What changes with the release; what is left empty stays as it is."""

    site_bans = NamesField(Name.SITE, label="Ban sites for this request")
    excluded_files = NamesField(Name.LFN, label="Go on without these input files")
    memory_mb = forms.IntegerField(
        required=False, min_value=1, max_value=1_000_000, widget=UnfoldAdminIntegerFieldWidget,
        label="Memory of a job, in MB", help_text="Empty: as before.",
    )  # fmt: skip
    time_per_event_sec = forms.FloatField(
        required=False, min_value=0.000001, max_value=1_000_000, widget=UnfoldAdminTextInputWidget,
        label="Time of one event, in seconds",
        help_text="For jobs stopped for their wall time: they get three times this in the next round."
        " Empty: as before.",
    )  # fmt: skip
    retry_count = forms.IntegerField(
        required=False, min_value=0, max_value=20, widget=UnfoldAdminIntegerFieldWidget,
        label="Retries of a job", help_text="Empty: as before.",
    )  # fmt: skip
    error_hold_threshold = forms.FloatField(
        required=False, min_value=0.001, max_value=1, widget=UnfoldAdminTextInputWidget,
        label="Hold again above this share of failed groups", help_text="0.2 is 20 %. Empty: as before.",
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        """The reason, and the modifications as one value."""
        given = dict(super().clean() or {})
        reason = given.pop("reason", "")
        return {"reason": reason, "modifications": Modifications(**given) if not self.errors else None}
