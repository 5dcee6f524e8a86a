"""Claim the output datasets of existing requests, oldest first."""

from django.db import migrations
from django.utils import timezone

ENDED = ("completed", "failed", "aborted")
SHARED = "It wrote into the dataset before datasets had owners"
BATCH = 1000


def claim(apps, schema_editor):
    """Of requests that ended, only what they wrote is claimed."""
    claims = apps.get_model("outputs_app", "DatasetClaim").objects
    rows = apps.get_model("requests_app", "Request").objects.exclude(status="new").order_by("created_at", "id")
    before = dict(rows.values_list("pk", "previous_version"))
    flows = dict(rows.values_list("pk", "workflow"))
    written = set(
        apps.get_model("outputs_app", "OutputBlock")
        .objects.order_by()
        .values_list("dataset__workflow", "dataset__dataset_name")
        .distinct()
    )
    owners, made, now = {}, [], timezone.now()
    for pk, flow, names, status in rows.values_list(
        "pk", "workflow", "workflow__output_datasets", "status"
    ).iterator():
        first = pk
        while before.get(first) in flows:
            first = before[first]
        for name in dict.fromkeys(names):
            if status in ENDED and (flow, name) not in written:
                continue
            is_owner = name not in owners
            guest = owners.setdefault(name, flows[first]) != flows[first]
            made.append(
                claims.model(
                    workflow_id=flow,
                    dataset_name=name,
                    chain_id=flows[first],
                    is_owner=is_owner,
                    claimed_at=now,
                    checked_at=None if status == "submitted" else now,
                    allowed_by="system:migration" if guest else "",
                    allowed_reason=SHARED if guest else "",
                )
            )
    claims.bulk_create(made, batch_size=BATCH)


class Migration(migrations.Migration):
    dependencies = [
        ("requests_app", "0016_quotas"),
        ("outputs_app", "0010_dataset_claims"),
    ]

    operations = [migrations.RunPython(claim, migrations.RunPython.noop)]
