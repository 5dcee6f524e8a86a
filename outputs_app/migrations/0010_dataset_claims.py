"""Give every dataset an owner, and other writers a permission."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import wms2_project.fields


def _workflow(name):
    return models.ForeignKey(
        on_delete=django.db.models.deletion.PROTECT, related_name=name, to="dags_app.workflow"
    )


def _moment():
    return models.DateTimeField(blank=True, null=True)


class Migration(migrations.Migration):
    dependencies = [
        ("dags_app", "0018_applied_sites"),
        ("outputs_app", "0009_urgent_blocks_and_newest"),
    ]

    operations = [
        migrations.CreateModel(
            name="DatasetClaim",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "dataset_name",
                    models.CharField(max_length=500, validators=[wms2_project.fields.LegalName("dataset")]),
                ),
                ("is_owner", models.BooleanField(default=False)),
                ("claimed_at", _moment()),
                ("released_at", _moment()),
                ("checked_at", _moment()),
                ("conflict", models.TextField(blank=True, default="")),
                ("registering_at", _moment()),
                ("allowed_by", models.CharField(blank=True, default="", max_length=250)),
                ("allowed_reason", models.TextField(blank=True, default="")),
                ("chain", _workflow("+")),
                ("workflow", _workflow("claims")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["workflow", "dataset_name"], name="dataset_claim_once"),
                    models.UniqueConstraint(
                        fields=["dataset_name"],
                        condition=Q(is_owner=True, released_at__isnull=True),
                        name="one_owner_per_dataset",
                    ),
                    models.CheckConstraint(
                        condition=Q(allowed_by="") | ~Q(allowed_reason=""), name="sharing_has_a_reason"
                    ),
                ],
                "indexes": [
                    models.Index(fields=["dataset_name"], name="dataset_claim_name"),
                    models.Index(
                        fields=["dataset_name"], name="dataset_claim_guest", condition=Q(is_owner=False)
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            "outputdataset", models.Index(fields=["dataset_name"], name="output_dataset_name")
        ),
    ]
