"""Stand-ins for adapters that tests inject (the fixture `adapt`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from cms.types import DatasetInfo
from dags_app.models import InputFile


class FromSettings:
    """An adapter that is built from the settings at its first use."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = cache(build)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._build(), name)


class Overridden:
    """An adapter of which some methods are replaced."""

    def __init__(self, adapter: Any, **methods: Any) -> None:
        self._adapter, self._methods = adapter, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods[name] if name in self._methods else getattr(self._adapter, name)


class OwnFilesDbs:
    """A DBS in which every input dataset is valid and has the files of the tables; it has no output."""

    def dataset(self, name: str) -> DatasetInfo:
        return DatasetInfo(name, "VALID", "data", "", 1, "", "", 1, 1, 1, 1, 1)

    def content(self, name: str) -> None:
        """Return None: the dataset does not exist."""

    def blocks(self, name: str) -> set[str]:
        return set(self._files(name).values_list("block_name", flat=True))

    def valid_lfns(self, name: str) -> set[str]:
        return set(self._files(name).values_list("lfn", flat=True))

    def _files(self, name: str) -> Any:
        return InputFile.objects.filter(workflow__input_dataset=name)
