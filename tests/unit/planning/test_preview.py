"""Files given by a user are parsed strictly, and errors name the field."""

from __future__ import annotations

from typing import Any

import pytest

from dags_app.planning.preview import read_files
from wms2_project.errors import InvalidInput

ROW = {"lfn": "/store/a.root", "events": 10, "size": 5, "runs": {"1": [1, 2]}, "locations": ["T1_US_FNAL"]}


def test_locations_are_the_sites() -> None:
    (file,), pool = read_files([ROW])
    assert file.sites == pool.names == {"T1_US_FNAL"}


@pytest.mark.parametrize(
    "locations", ["T1_US_FNAL", {"T1_US_FNAL": 1}, None, 5, [None], [["T1_US_FNAL"]], [""]]
)
def test_locations_that_are_no_list_of_names_are_refused(locations: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_files([ROW, ROW | {"locations": locations}])
    assert list(refused.value.fields) == ["files[1]"]
    assert "locations" in refused.value.fields["files[1]"]
