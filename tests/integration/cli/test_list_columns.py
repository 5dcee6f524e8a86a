"""The lists of the command line client show members of the API's rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from wms2_cli.lists import LISTINGS


class Asked(dict[str, Any]):
    """A row that records the members that are read."""

    def get(self, name: str, default: Any = None) -> Any:
        self[name] = default
        return default


@pytest.mark.django_db
def test_columns_of_lists_are_members_of_their_rows(client: Client) -> None:
    answer = client.get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    described = answer.json()

    def resolve(schema: dict[str, Any]) -> dict[str, Any]:
        name = schema.get("$ref", "").rpartition("/")[2]
        found: dict[str, Any] = described["components"]["schemas"][name] if name else schema
        return found

    for listing in LISTINGS:
        responses = described["paths"][f"/api/v1/{listing.path}"]["get"]["responses"]
        body = resolve(responses["200"]["content"]["application/json"]["schema"])
        members = resolve(body["properties"][listing.rows]["items"])["properties"]
        row = Asked()
        for column in listing.columns:
            column.cell(row)
        assert {*row, listing.key} <= set(members), listing.path
