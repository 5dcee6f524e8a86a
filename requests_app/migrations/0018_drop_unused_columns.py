"""Drop the weights of a rank that is not computed: nothing set or read them."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0017_claim_outputs")]

    operations = [
        migrations.RemoveField("admissionconfig", "ageing_weight"),
        migrations.RemoveField("admissionconfig", "retries_weight"),
        migrations.RemoveField("admissionconfig", "rank_weight"),
    ]
