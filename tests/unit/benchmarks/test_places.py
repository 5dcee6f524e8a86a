"""Benchmarks use separate databases and directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.places import record_path, submit_root, take_places


def test_the_application_never_sees_the_stacks_own_database_or_queue() -> None:
    environ = {
        "DATABASE_URL": "postgres://wms2:secret@127.0.0.1:5555/wms2?sslmode=disable",
        "REDIS_URL": "redis://:secret@127.0.0.1:6666/0",
    }

    places = take_places(environ)

    assert environ["DATABASE_URL"] == "postgres://wms2:secret@127.0.0.1:5555/wms2_bench?sslmode=disable"
    assert environ["REDIS_URL"] == places.redis == "redis://:secret@127.0.0.1:6666/3"
    assert places.database_server.endswith("/wms2?sslmode=disable")


def test_without_services_the_application_is_pointed_nowhere() -> None:
    environ: dict[str, str] = {}

    places = take_places(environ)

    assert (places.database_server, places.redis) == ("", "")
    assert "127.0.0.1:1/" in environ["DATABASE_URL"]
    assert "127.0.0.1:1/" in environ["REDIS_URL"]


def test_dags_are_written_into_a_directory_that_is_removed_afterwards(tmp_path: Path) -> None:
    environ = {"WMS2_SUBMIT_ROOT": str(tmp_path)}

    with submit_root(environ) as root:
        (root / "dag").mkdir()
        assert root.parent == tmp_path
        assert environ["WMS2_SUBMIT_ROOT"] == str(root)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        (None, {"WMS2_HOME": "/srv/state"}, "/srv/state/benchmarks.json"),
        (None, {"WMS2_STATE": "/srv/state"}, "/srv/state/benchmarks.json"),
        ("mine.json", {"WMS2_HOME": "/srv/state"}, "/srv/state/mine.json"),
        ("/tmp/mine.json", {"WMS2_HOME": "/srv/state"}, "/tmp/mine.json"),
        (
            None,
            {"WMS2_HOME": "/srv/state/runs/bench.x1", "WMS2_DISPOSABLE": "1"},
            "/srv/state/benchmarks.json",
        ),
        (None, {"WMS2_HOME": "/srv/runs/bench"}, "/srv/runs/bench/benchmarks.json"),
    ],
)
def test_the_record_outlives_a_state_directory_made_for_the_run(
    given: str | None, environ: dict[str, str], expected: str
) -> None:
    assert record_path(given, environ) == Path(expected)
