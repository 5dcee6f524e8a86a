"""Small files: whole, private, stable."""

from __future__ import annotations

from pathlib import Path

from lab.files import LOG_LIMIT_BYTES, keep_secret, read_json, rotate, write_atomically


def test_a_secret_is_made_once_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "token"

    first = keep_secret(path, prefix="wms2_")

    assert first.startswith("wms2_")
    assert len(first) > 30
    assert keep_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600


def test_writing_replaces_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "x"
    (tmp_path / "x.new").write_text("left by a crash")
    write_atomically(path, "one")

    write_atomically(path, "two", mode=0o644)

    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_missing_and_torn_json_read_as_empty(tmp_path: Path) -> None:
    (tmp_path / "torn").write_text('{"a": ')
    (tmp_path / "binary").write_bytes(b"\0" * 100)

    assert read_json(tmp_path / "missing") == {}
    assert read_json(tmp_path / "torn") == {}
    assert read_json(tmp_path / "binary") == {}


def test_only_a_grown_log_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_bytes(b"x")
    rotate(log)
    assert log.exists()

    with log.open("ab") as out:
        out.truncate(LOG_LIMIT_BYTES + 1)
    rotate(log)

    assert not log.exists()
    assert (tmp_path / "web.log.1").stat().st_size == LOG_LIMIT_BYTES + 1
