"""Record how far each retention policy has been applied."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0021_search_by_trigrams")]

    operations = [
        migrations.CreateModel(
            name="RetentionRecord",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("through", models.DateTimeField(blank=True, null=True)),
                ("removed", models.PositiveBigIntegerField(default=0)),
                ("ran_at", models.DateTimeField(blank=True, null=True)),
                ("message", models.TextField(blank=True, default="")),
            ],
        ),
    ]
