"""DBS: content of datasets, and registration of output blocks.

Registration is find-or-create: a block that DBS has with the same content counts as registered, whatever
the answer to the insertion was, so a repeated or half-answered call changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cms.dbs_block import bulk_block
from cms.dbs_errors import named_refusals
from cms.http import HttpOptions, JsonService, Params
from cms.types import BlockRecord, DatasetContent, DatasetFile, DatasetInfo, FileCounts, fold_lumis
from wms2_project.errors import NotFound, ServiceRejected, ServiceUnavailable
from wms2_project.grammar import Name, check

ADLER32_DIGITS = 8
# The fields that each record of an answer must have; others may be missing or null.
NEEDED: dict[str, tuple[str, ...]] = {
    "datasets": ("dataset", "dataset_access_type"),
    "blocks": ("block_name",),
    "files": ("logical_file_name",),
    "filelumis": ("logical_file_name", "run_num", "lumi_section_num"),
    "filesummaries": (),
}


@dataclass(frozen=True, slots=True)
class DbsConfig:
    """Base URLs for reading and writing, such as …/DBSReader."""

    reader_url: str
    writer_url: str
    created_by: str = "wms2"
    http: HttpOptions = field(default_factory=HttpOptions)


class DbsClient:
    """Reads datasets block by block and registers output blocks."""

    def __init__(self, config: DbsConfig) -> None:
        self.account = config.created_by  # creator of registered blocks
        self._reader = JsonService(service="DBS reader", base_url=config.reader_url, options=config.http)
        self._writer = JsonService(service="DBS writer", base_url=config.writer_url, options=config.http)

    def dataset(self, name: str) -> DatasetInfo | None:
        """Return the dataset in any access type; None if DBS does not know it."""
        check(Name.DATASET, name)
        rows = self._rows("datasets", {"dataset": name, "dataset_access_type": "*", "detail": 1})
        if not rows:
            return None
        summary = self._rows("filesummaries", {"dataset": name, "validFileOnly": 1})
        return _dataset_info(rows[0], summary[0] if summary else {})

    def content(self, name: str) -> DatasetContent | None:
        """Return the dataset's access type, creator and blocks; None if DBS does not know it."""
        check(Name.DATASET, name)
        rows = self._rows("datasets", {"dataset": name, "dataset_access_type": "*", "detail": 1})
        if not rows:
            return None
        return DatasetContent(
            access_type=str(rows[0]["dataset_access_type"]),
            created_by=str(rows[0].get("create_by") or ""),
            blocks=self.blocks(name),
        )

    def files(self, dataset: str) -> Iterator[DatasetFile]:
        """Yield every valid file of the dataset, with one block in memory at a time."""
        check(Name.DATASET, dataset)
        for block in self._rows("blocks", {"dataset": dataset, "detail": 1}):
            yield from self.block_files(str(block["block_name"]))

    def blocks(self, dataset: str) -> frozenset[str]:
        """Return the names of the dataset's blocks."""
        check(Name.DATASET, dataset)
        return frozenset(str(row["block_name"]) for row in self._rows("blocks", {"dataset": dataset}))

    def open_blocks(self, dataset: str) -> frozenset[str]:
        """Return the names of the dataset's blocks that still take files."""
        check(Name.DATASET, dataset)
        rows = self._rows("blocks", {"dataset": dataset, "detail": 1})
        return frozenset(str(row["block_name"]) for row in rows if row.get("open_for_writing"))

    def block(self, block_name: str) -> dict[str, Any] | None:
        """Return DBS's record of the block; None if it does not know it."""
        check(Name.BLOCK, block_name)
        rows = self._rows("blocks", {"block_name": block_name, "detail": 1})
        return rows[0] if rows else None

    def block_files(self, block_name: str) -> list[DatasetFile]:
        """Return the valid files of a block, sorted by name, with lumi sections as ranges."""
        check(Name.BLOCK, block_name)
        rows = self._rows("files", {"block_name": block_name, "detail": 1, "validFileOnly": 1})
        lumis = self._rows("filelumis", {"block_name": block_name})
        return parse_files(rows, lumis)

    def valid_lfns(self, dataset: str) -> frozenset[str]:
        """Return the names of the dataset's valid files, in one call."""
        check(Name.DATASET, dataset)
        rows = self._rows("files", {"dataset": dataset, "validFileOnly": 1})
        return frozenset(str(row["logical_file_name"]) for row in rows)

    def block_counts(self, block_name: str) -> FileCounts | None:
        """Return sums over the valid files of a block; None if DBS does not know it."""
        if self.block(block_name) is None:
            return None
        rows = self._rows("filesummaries", {"block_name": block_name, "validFileOnly": 1})
        row = rows[0] if rows else {}
        return FileCounts(
            files=_number(row, "num_file"),
            bytes=_number(row, "file_size"),
            events=_number(row, "num_event"),
            lumis=_number(row, "num_lumi"),
        )

    def register_block(self, record: BlockRecord) -> None:
        """Register the block in DBS, complete and closed."""
        if self._has(record):
            return
        try:
            with named_refusals():
                self._writer.post("bulkblocks", body=bulk_block(record, created_by=self.account))
        except (ServiceUnavailable, ServiceRejected):
            # The block may exist ("already exists", or the answer was lost): check before failing.
            if not self._has(record):
                raise

    def set_dataset_status(self, dataset: str, status: str) -> None:
        """Set the access type (VALID, INVALID, DEPRECATED …) and verify it.

        DBS answers 200 to a change of a dataset it does not know, so the answer alone proves nothing.
        """
        check(Name.DATASET, dataset)
        unknown: ServiceUnavailable | None = None
        try:
            with named_refusals():
                self._writer.put("datasets", params={"dataset": dataset, "dataset_access_type": status})
        except ServiceUnavailable as error:
            unknown = error
        info = self.dataset(dataset)
        if info is None:
            raise NotFound(f"DBS has no dataset {dataset}, so it cannot become {status}")
        if info.access_type != status:
            raise unknown or ServiceUnavailable(
                f"DBS still has {dataset} as {info.access_type}, not {status}"
            )

    def invalidate_files(self, lfns: Iterable[str]) -> None:
        """Mark these files invalid, one call each; DBS ignores files it does not know."""
        for lfn in lfns:
            check(Name.LFN, lfn)
            with named_refusals():
                self._writer.put("files", params={"logical_file_name": lfn, "is_file_valid": 0})

    def _has(self, record: BlockRecord) -> bool:
        found = self.block(record.block_name)
        if found is None:
            return False
        ours = (len(record.files), record.size_bytes)
        theirs = (_number(found, "file_count"), _number(found, "block_size"))
        if ours != theirs:
            raise ServiceRejected(
                f"DBS has block {record.block_name} with {theirs[0]} files and {theirs[1]} bytes, "
                f"WMS2 has {ours[0]} files and {ours[1]} bytes",
                cure="Find out who registered it. A block in DBS never changes",
            )
        return True

    def _rows(self, path: str, params: Params) -> list[dict[str, Any]]:
        with named_refusals():
            answer = self._reader.get(path, params)
        if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
            raise ServiceUnavailable(f"DBS reader: GET {path} did not return a list of records")
        for key in NEEDED[path]:
            if any(row.get(key) is None for row in answer):
                raise ServiceUnavailable(f"DBS reader: GET {path} returned a record without {key}")
        return answer


def parse_files(rows: list[dict[str, Any]], lumi_rows: list[dict[str, Any]]) -> list[DatasetFile]:
    """Join file records with their lumi rows. DBS lists a file once per run when queried by run."""
    lumis: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in lumi_rows:
        lumis[row["logical_file_name"]].extend(_lumi_numbers(row))
    files = {row["logical_file_name"]: row for row in rows}
    return [
        DatasetFile(
            lfn=lfn,
            size_bytes=_number(row, "file_size"),
            events=_number(row, "event_count"),
            adler32=_adler32(row.get("adler32")),
            block_name=str(row.get("block_name") or ""),
            lumis=fold_lumis(lumis.get(lfn, ())),
        )
        for lfn, row in sorted(files.items())
    ]


def _lumi_numbers(row: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield (run, lumi); older servers send a list of lumi sections per row."""
    run, numbers = _whole(row["run_num"], "run_num"), row["lumi_section_num"]
    for lumi in numbers if isinstance(numbers, list) else (numbers,):
        yield run, _whole(lumi, "lumi_section_num")


def _dataset_info(row: dict[str, Any], summary: dict[str, Any]) -> DatasetInfo:
    return DatasetInfo(
        name=str(row["dataset"]),
        access_type=str(row["dataset_access_type"]),
        primary_type=str(row.get("primary_ds_type") or ""),
        acquisition_era=str(row.get("acquisition_era_name") or ""),
        processing_version=_number(row, "processing_version"),
        physics_group=str(row.get("physics_group_name") or ""),
        prep_id=str(row.get("prep_id") or ""),
        blocks=_number(summary, "num_block"),
        files=_number(summary, "num_file"),
        lumis=_number(summary, "num_lumi"),
        events=_number(summary, "num_event"),
        size_bytes=_number(summary, "file_size"),
        changed_at=_number(summary, "max_ldate"),
    )


def _number(row: dict[str, Any], key: str) -> int:
    """Return a count; DBS sends null for empty sums and unset counts."""
    return _whole(row.get(key) or 0, key)


def _whole(value: Any, key: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if number < 0:
        raise ServiceUnavailable(f"DBS reader: {key} is {value!r:.40}, expected a whole number from 0 up")
    return number


def _adler32(value: Any) -> str:
    """Return eight lower-case digits; empty for NOTSET and other placeholders."""
    text = str(value or "").lower()
    is_hex = 0 < len(text) <= ADLER32_DIGITS and all(char in "0123456789abcdef" for char in text)
    return text.zfill(ADLER32_DIGITS) if is_hex else ""
