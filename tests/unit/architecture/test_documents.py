"""The documents name files, folders, commands and variables that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    if path.relative_to(ROOT).parts[:2] != ("docs", "reports")
)
SUFFIX = "py|sh|md|html|js|json|csv|yml"
FOREIGN = {  # files of jobs and of CMSSW, and of Django's packages
    "jobs.json", "merge_output.json", "payload.json", "storage.json", "pset_1.py", "pset_2.py",
    "cmssw_handle_nEvents.py", "cmssw_handle_pileup.py", "edm_pset_tweak.py", "edm_pset_pickler.py",
    "admin/base.html",
}  # fmt: skip
OF_DJANGO = {"check", "migrate", "collectstatic", "shell", "createsuperuser"}
FOLDERS = "lab|cli|docs|tests|deploy|benchmarks"


def known_files() -> list[str]:
    skipped = {".git", "__pycache__", "node_modules", ".venv"}
    return [
        "/" + str(path.relative_to(ROOT))
        for path in ROOT.rglob("*")
        if path.is_file() and not skipped & set(path.relative_to(ROOT).parts)
    ]


FILES = known_files()
SOURCES = "\n".join(
    (ROOT / name[1:]).read_text(errors="replace")
    for name in FILES
    if name.endswith((".py", ".sh", ".yml", ".js")) or name == "/wms2"
)


def spelled_out(text: str) -> Iterator[str]:
    """Yield the names in `a/{b,c}.py`."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", text)
    if found is None:
        yield text
    else:
        yield from (found[1] + word + found[3] for word in found[2].split(","))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_names_in_documents_exist(document: Path) -> None:
    text = (ROOT / document).read_text()
    paths = {
        name
        for quoted in re.findall(rf"`([\w./{{}},-]+\.(?:{SUFFIX}))`", text)
        for name in spelled_out(quoted)
        if name not in FOREIGN
    }
    commands = set(re.findall(r"(?:\./wms2 manage|manage\.py) ([a-z_]+)", text)) - OF_DJANGO
    variables = set(re.findall(r"`(WMS2_[A-Z0-9_]+[A-Z0-9])`", text))

    missing = [name for name in paths if not any(one.endswith("/" + name) for one in FILES)]
    missing += [name for name in commands if not any(one.endswith(f"commands/{name}.py") for one in FILES)]
    missing += [name for name in variables if name not in SOURCES]
    assert sorted(missing) == []
