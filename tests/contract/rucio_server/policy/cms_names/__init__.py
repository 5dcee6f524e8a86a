"""A Rucio policy package with the names CMS uses; its permissions are Rucio's generic ones."""

SUPPORTED_VERSION = [">=38"]


def get_algorithms() -> dict[str, object]:
    return {}
