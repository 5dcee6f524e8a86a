"""Operations on admission, quotas and alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from requests_app.admission import EDITABLE, change_limits, limits
from requests_app.api.inputs import LimitsInput, QuotaInput, QuotaKey
from requests_app.api.serializers import AlertRow, LimitsBody
from requests_app.models import AdmissionConfig
from requests_app.services.alerts import acknowledge_alert, alert_by_id
from requests_app.services.quotas import LIMITS, QuotaState, change_quota, quota_of, state_of
from requests_app.states import AlertState
from wms2_project.api.bodies import body_of, render
from wms2_project.operations import Call, Done, Operation, Target, Weight

ADMISSION = Target(
    kind="admission",
    route="admission/config",
    find=limits,
    body=LimitsBody,
    render=lambda call, done: LimitsBody(done.row).data,
)


def _limit(call: Call) -> Done:
    row = change_limits(changes=call.values, expected_version=call.expected_version, **call.signed)
    return Done(row, "The new limits apply from now on.")


def _limits(row: AdmissionConfig) -> Mapping[str, Any]:
    return {name: getattr(row, name) for name in EDITABLE if name != "pause_reason"}


ADMISSION_OPERATIONS = (
    Operation(
        target=ADMISSION,
        name="edit",
        label="Change limits",
        effect="Limits change at once, for every request. While admission is paused, no request is admitted.",
        input=LimitsInput,
        run=_limit,
        method="PATCH",
        path="",
        initial=_limits,
        icon="tune",
        weight=Weight.USUAL,
    ),
)

QUOTA = Target(
    kind="quota",
    route="quotas/<quota_scope:scope>/<quota_name:name>",
    find=quota_of,
    new=QuotaKey,
    body=body_of(QuotaState),
    render=lambda call, done: render(state_of(done.row, now=call.now)),
)


def _set_quota(call: Call) -> Done:
    row = change_quota(
        scope=call.row.scope,
        name=call.row.name,
        changes=call.values,
        expected_version=call.expected_version,
        **call.signed,
    )
    return Done(row, f"The quota of {row} is changed.")


QUOTA_OPERATIONS = (
    Operation(
        target=QUOTA,
        name="set",
        label="Change limits",
        effect="The limits of a requestor or group, or the default (`*`), change at once. A limit without a"
        " value uses the default.",
        input=QuotaInput,
        run=_set_quota,
        method="PATCH",
        path="",
        initial=lambda row: {name: getattr(row, name) for name in LIMITS},
        icon="tune",
        weight=Weight.USUAL,
    ),
)

ALERT = Target(
    kind="alert",
    route="alerts/<int:alert_id>",
    find=alert_by_id,
    key=int,
    body=AlertRow,
    render=lambda call, done: AlertRow(done.row).data,
)


def _acknowledge(call: Call) -> Done:
    row = acknowledge_alert(alert_id=call.row.pk, **call.signed)
    return Done(row, f"Alert {row.pk} is acknowledged by {row.acknowledged_by}.")


ALERT_OPERATIONS = (
    Operation(
        target=ALERT,
        name="acknowledge",
        label="Acknowledge",
        effect="The alert is assigned to you. It stays open, and no further notifications are sent.",
        run=_acknowledge,
        allows=lambda alert: alert.state is AlertState.OPEN,
        allowed_in="while it is open",
        checks_version=False,
        affects=lambda alert: {"Message": alert.message, "Seen": f"{alert.count:,} times"},
        icon="done",
        weight=Weight.USUAL,
        bulk=True,
    ),
)
