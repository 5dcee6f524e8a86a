"""The answer to PROPFIND: the entries of a directory. Parsed with caps, without a DTD."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote
from xml.parsers import expat

from sandbox.storage.base import Entry, Kind, StorageError

MAX_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 200_000
MAX_TEXT = 4096


@dataclass
class _Parser:
    entries: dict[str, bool] = field(default_factory=dict)  # quoted path → is it a directory?
    href: str = ""
    directory: bool = False
    text: str = ""

    def start(self, name: str, _attributes: object) -> None:
        tag = _local(name)
        self.text = ""
        if tag == "response":
            self.href, self.directory = "", False
        elif tag == "collection":
            self.directory = True

    def data(self, text: str) -> None:
        if len(self.text) < MAX_TEXT:
            self.text += text

    def end(self, name: str) -> None:
        tag = _local(name)
        if tag == "href" and not self.href:
            self.href = self.text.strip()
        elif tag == "response":
            self.entries[self.href] = self.directory
            if len(self.entries) > MAX_ENTRIES:
                raise ValueError(f"more than {MAX_ENTRIES} entries")

    def refuse(self, *_declaration: object) -> None:
        raise ValueError("a document type declaration")


def parse_listing(text: str, directory: str) -> list[Entry]:
    """Return the entries of the directory (its path), itself left out. Raises StorageError."""
    found = _Parser()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.CharacterDataHandler = found.data
    parser.StartDoctypeDeclHandler = found.refuse
    try:
        parser.Parse(text.encode("utf-8"), True)
    except (expat.ExpatError, ValueError) as error:
        raise StorageError(Kind.REFUSED, 0, f"{directory}: its listing cannot be read: {error}") from error
    own = _path(directory)
    names: dict[str, bool] = {}
    for href, is_directory in found.entries.items():
        path = _path(unquote(_without_server(href)))
        if path != own:
            names[path.rpartition("/")[2]] = is_directory
    return [Entry(name, is_directory) for name, is_directory in sorted(names.items()) if is_name(name)]


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _without_server(href: str) -> str:
    """Return the path of a URL, or the path itself. XRootD does not quote: a # belongs to the name."""
    return href.partition("://")[2].partition("/")[2] if "://" in href else href


def _path(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part)


def is_name(name: str) -> bool:
    """Return whether this is a legal name of an entry."""
    return name not in ("", ".", "..") and "\0" not in name
