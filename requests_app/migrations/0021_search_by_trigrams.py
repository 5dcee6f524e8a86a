"""Index request names by trigrams, so that any part of a name is found among millions.

Without the extension pg_trgm, or the right to create it, there is no index: then only beginnings are searched.
"""

from django.db import migrations

CREATE = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm') THEN
        CREATE EXTENSION IF NOT EXISTS pg_trgm;
        CREATE INDEX IF NOT EXISTS request_name_trigram ON requests_app_request
            USING gin (upper(request_name::text) gin_trgm_ops);
        CREATE INDEX IF NOT EXISTS output_dataset_trigram ON outputs_app_outputdataset
            USING gin (upper(dataset_name::text) gin_trgm_ops);
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'pg_trgm is not installed: the console finds beginnings of names only';
END $$
"""
DROP = "DROP INDEX IF EXISTS request_name_trigram, output_dataset_trigram"


class Migration(migrations.Migration):
    dependencies = [
        ("requests_app", "0020_rank_and_storage_policy"),
        ("outputs_app", "0014_lifetimes"),
    ]
    operations = [migrations.RunSQL(CREATE, DROP)]
