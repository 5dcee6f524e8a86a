"""A Rucio policy package with the names CMS uses; its permissions are Rucio's generic ones."""

from collections.abc import Mapping

SUPPORTED_VERSION = [">=38"]


def get_algorithms() -> dict[str, object]:
    return {"pfn2lfn": {"cms_names_pfn2lfn": _name_in}}


def _name_in(parsed_pfn: Mapping[str, str]) -> tuple[str, str]:
    """Return the name in a physical name: Rucio's own rule takes the last part of the path for all of it."""
    path = f"{parsed_pfn['path']}/{parsed_pfn['name']}".replace("//", "/")
    return path[path.index("/store/") :], "cms"
