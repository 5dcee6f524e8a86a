"""A table keyed by statuses must name each of them, or the program does not start."""

from __future__ import annotations

import pytest

from outputs_app.states import BlockStatus
from wms2_project.tables import check_complete


def test_a_complete_table_is_accepted() -> None:
    check_complete("colours", dict.fromkeys(BlockStatus, "info"), BlockStatus)


def test_a_missing_status_is_named() -> None:
    table = {status: "info" for status in BlockStatus if status is not BlockStatus.PENDING}
    with pytest.raises(RuntimeError, match=r"colours: missing \['pending'\], unknown \[\]"):
        check_complete("colours", table, BlockStatus)


def test_an_unknown_status_is_named() -> None:
    table = {**dict.fromkeys(BlockStatus, "info"), "lost": "danger"}
    with pytest.raises(RuntimeError, match=r"colours: missing \[\], unknown \['lost'\]"):
        check_complete("colours", table, BlockStatus)
