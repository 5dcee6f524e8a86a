"""Rucio: where files are, and containers, blocks, replicas and rules for what we produce.

Every `ensure_` may be repeated at any time: what exists already is adopted, provided that it is what we
meant. Names of CMS datasets, blocks and files are Rucio's containers, datasets and files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from rucio.common import exception as rucio_errors

from cms.rse_protocols import storage_prefixes
from cms.rucio_session import MemoryTokenClient, RucioConfig, connect, told_as_ours
from cms.subscriptions import destinations
from cms.types import BlockFile, Destination, FileCounts, ReplicaVerdict, Rule, RuleState
from wms2_project.errors import ServiceRejected, ServiceUnavailable
from wms2_project.grammar import Name, check

MAX_NAMES_PER_CALL = 1000
CONTAINER, BLOCK = "CONTAINER", "DATASET"
EMPTY_EXPRESSION = "empty set"
ALREADY_DECLARED, UNKNOWN_REPLICA = "Already declared", "Unknown replica"
_T = TypeVar("_T")


class RucioClient:
    """One account's view of Rucio. Logs in at the first call."""

    def __init__(self, config: RucioConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._connected: MemoryTokenClient | None = None

    @property
    def _client(self) -> MemoryTokenClient:
        with self._lock:
            if self._connected is None:
                self._connected = connect(self._config)
            return self._connected

    def replicas(self, lfns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """For each file asked for, the storages that hold an available replica; none is an empty tuple."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(lfns, ())
        for batch in _batches([self._did(lfn) for lfn in found]):
            with told_as_ours(f"list the replicas of {len(batch)} files"):
                for row in self._client.list_replicas(batch):
                    available = (rse for rse, state in row["states"].items() if state == "AVAILABLE")
                    found[row["name"]] = tuple(sorted(available))
        return found

    def declare_replica(self, lfn: str, rse: str, verdict: ReplicaVerdict, *, reason: str) -> bool:
        """Declare the copy of a file at a storage suspicious or bad; false if Rucio has no such copy.

        A copy that was declared before stays so. Rucio takes suspicious copies by their physical names only.
        """
        check(Name.LFN, lfn)
        check(Name.RSE, rse)
        with told_as_ours(f"declare {lfn} at {rse} {verdict}"):
            if verdict is ReplicaVerdict.BAD:
                refused = self._client.declare_bad_file_replicas([{**self._did(lfn), "rse": rse}], reason)
            else:
                pfn = self._pfn(lfn, rse)
                if not pfn:
                    return False
                refused = self._client.declare_suspicious_file_replicas([pfn], reason)
        messages = [str(message) for told in (refused or {}).values() for message in told]
        left = [message for message in messages if not message.endswith(ALREADY_DECLARED)]
        if any(not message.endswith(UNKNOWN_REPLICA) for message in left):
            raise ServiceRejected(f"Rucio did not declare {lfn} at {rse} {verdict}: {left[0][:300]}")
        return not left

    def _pfn(self, lfn: str, rse: str) -> str:
        """A physical name of the file at the storage, '' if Rucio has no copy there."""
        rows = self._client.list_replicas([self._did(lfn)], rse_expression=rse, all_states=True)
        return next((str(pfn) for row in rows for pfn in sorted(row["rses"].get(rse, ()))), "")

    def ensure_container(self, name: str) -> None:
        """Make the container of a dataset exist."""
        self._ensure_did(check(Name.DATASET, name), CONTAINER)

    def ensure_block(self, block_name: str, container: str, rse: str, files: Sequence[BlockFile]) -> None:
        """Make the block exist, closed, inside the container, with exactly these files at the storage."""
        check(Name.BLOCK, block_name)
        check(Name.RSE, rse)
        is_new = self._ensure_did(block_name, BLOCK)
        with told_as_ours(f"register block {block_name} at {rse}"):
            for batch in _batches([self._file(file) for file in files]):
                self._client.add_replicas(rse, [{**file, "state": "A"} for file in batch])
            self._attach_files(block_name, files, is_new=is_new)
            self._attach_block(block_name, container)
            self._close(block_name)

    def block_counts(self, block_name: str) -> FileCounts | None:
        """How many files and bytes Rucio has in a block, or None if it does not know it."""
        with told_as_ours(f"list the files of {block_name}"):
            try:
                sizes = [row["bytes"] for row in self._client.list_content(self._config.scope, block_name)]
            except rucio_errors.DataIdentifierNotFound:
                return None
        return FileCounts(files=len(sizes), bytes=sum(sizes))

    def ensure_rule(
        self,
        did: str,
        rse_expression: str,
        *,
        activity: str,
        copies: int = 1,
        lifetime_sec: int | None = None,
        comment: str = "",
    ) -> str:
        """The id of our rule for this name, storage expression and number of copies; made if need be."""
        with told_as_ours(f"make a rule for {did} at {rse_expression}"):
            try:
                created = self._client.add_replication_rule(
                    [self._did(did)],
                    copies,
                    rse_expression,
                    lifetime=lifetime_sec,
                    grouping="DATASET" if "#" in did else "ALL",
                    activity=activity,
                    account=self._config.account,
                    comment=comment or None,
                )
                return str(created[0])
            except rucio_errors.DuplicateRule:
                return self._adopt_rule(did, rse_expression, copies, lifetime_sec)

    def rule(self, rule_id: str) -> Rule | None:
        """The rule as it stands, or None if Rucio has forgotten it."""
        with told_as_ours(f"read rule {rule_id}"):
            try:
                return _parse_rule(self._client.get_replication_rule(rule_id))
            except rucio_errors.RuleNotFound:
                return None

    def find_rule(self, did: str, rse_expression: str, *, copies: int = 1) -> str | None:
        """The id of our rule for this name, storage expression and number of copies, if there is one."""
        with told_as_ours(f"list the rules of {did}"):
            try:
                row = self._our_rule(did, rse_expression, copies)
            except rucio_errors.DataIdentifierNotFound:
                return None
            return str(row["id"]) if row else None

    def boost_rule(self, rule_id: str) -> None:
        """Let Rucio try a STUCK rule again at once."""
        with told_as_ours(f"boost rule {rule_id}"):
            self._client.update_replication_rule(rule_id, {"boost_rule": True})

    def delete_rule(self, rule_id: str) -> None:
        """Give the rule up. Rucio keeps it for up to an hour; a rule that is gone already is fine.

        A rule of another account is refused, whatever rights our account has in Rucio.
        """
        found = self.rule(rule_id)
        if found is None:
            return
        if found.account != self._config.account:
            raise ServiceRejected(
                f"rule {rule_id} belongs to {found.account}, not to {self._config.account}",
                cure="Find out who took it over; WMS2 deletes only rules of its own account",
            )
        with told_as_ours(f"delete rule {rule_id}"):
            try:
                self._client.delete_replication_rule(rule_id)
            except rucio_errors.RuleNotFound:
                return

    def rses(self, expression: str) -> list[str]:
        """The storages an expression stands for, sorted; none is an empty list."""
        with told_as_ours(f"resolve the storage expression {expression}"):
            try:
                return sorted(row["rse"] for row in self._client.list_rses(expression))
            except rucio_errors.InvalidRSEExpression as error:
                if EMPTY_EXPRESSION in str(error):
                    return []
                raise

    def used_fraction(self, rse: str) -> float | None:
        """How full a storage is by its own account, from 0 to 1; None if it gives none."""
        check(Name.RSE, rse)
        with told_as_ours(f"read the usage of {rse}"):
            try:
                told = list(self._client.get_rse_usage(rse, filters={"source": "storage"}))
            except rucio_errors.RSENotFound:
                return None
        if not told or told[0]["free"] is None or not told[0]["total"]:
            return None
        return float(told[0]["used"] / told[0]["total"])

    def storage_prefixes(self, rse: str) -> tuple[str, ...]:
        """Return the URL prefixes of a storage, the preferred one first; none if it has or is none."""
        check(Name.RSE, rse)
        with told_as_ours(f"read the protocols of {rse}"):
            try:
                return storage_prefixes(self._client.get_rse(rse)["protocols"])
            except rucio_errors.RSENotFound:
                return ()

    def subscriptions_matching(self, dataset: str) -> list[Destination]:
        """Where Rucio's subscriptions want this dataset, each storage expression once."""
        check(Name.DATASET, dataset)
        with told_as_ours(f"list the subscriptions for {dataset}"):
            rows = list(self._client.list_subscriptions())
        return destinations(rows, dataset=dataset, scope=self._config.scope, account=self._config.account)

    def _did(self, name: str) -> dict[str, str]:
        return {"scope": self._config.scope, "name": name}

    def _file(self, file: BlockFile) -> dict[str, Any]:
        check(Name.LFN, file.lfn)
        return {**self._did(file.lfn), "bytes": file.size_bytes, "adler32": file.adler32}

    def _ensure_did(self, name: str, did_type: str) -> bool:
        """Make the name exist; true if it is new."""
        with told_as_ours(f"create {name}"):
            try:
                self._client.add_did(self._config.scope, name, did_type)
                return True
            except rucio_errors.DataIdentifierAlreadyExists:
                found = self._client.get_did(self._config.scope, name)["type"]
        if found != did_type:
            raise ServiceRejected(f"Rucio has {name} as {found}, it should be {did_type}")
        return False

    def _attach_files(self, block_name: str, files: Sequence[BlockFile], *, is_new: bool) -> None:
        attached = set() if is_new else self._attached(block_name, files)
        for batch in _batches([file for file in files if file.lfn not in attached]):
            try:
                self._attach(block_name, batch)
            except rucio_errors.FileAlreadyExists:
                # Rucio attaches all or nothing: another attempt of ours was here in between.
                attached = self._attached(block_name, files)
                self._attach(block_name, [file for file in batch if file.lfn not in attached])

    def _attach(self, block_name: str, files: Sequence[BlockFile]) -> None:
        """Attach with size and checksum, so that Rucio refuses a name that holds other data."""
        if files:
            self._client.attach_dids(self._config.scope, block_name, [self._file(file) for file in files])

    def _attached(self, block_name: str, files: Sequence[BlockFile]) -> set[str]:
        """The files already in the block, all of which have to be ours."""
        ours = {file.lfn: (file.size_bytes, file.adler32) for file in files}
        theirs = {
            row["name"]: (row["bytes"], row["adler32"])
            for row in self._client.list_content(self._config.scope, block_name)
        }
        strange = sorted(lfn for lfn, facts in theirs.items() if ours.get(lfn) != facts)
        if strange:
            raise ServiceRejected(
                f"Rucio has block {block_name} with {len(strange)} files not ours, such as {strange[0]}",
                cure="Find out who registered it; a block never changes once it is closed",
            )
        return set(theirs)

    def _attach_block(self, block_name: str, container: str) -> None:
        try:
            self._client.attach_dids(self._config.scope, container, [self._did(block_name)])
        except rucio_errors.DuplicateContent:
            return

    def _close(self, block_name: str) -> None:
        try:
            self._client.close(self._config.scope, block_name)
        except rucio_errors.UnsupportedOperation:
            if self._client.get_did(self._config.scope, block_name)["open"]:
                raise

    def _adopt_rule(self, did: str, rse_expression: str, copies: int, lifetime_sec: int | None) -> str:
        """Find the rule in our way; one that was deleted or is about to expire gets its lifetime back."""
        row = self._our_rule(did, rse_expression, copies)
        if row is None:
            raise ServiceUnavailable(
                f"Rucio's rule for {did} at {rse_expression} vanished while we adopted it"
            )
        if row["expires_at"] is not None:
            self._client.update_replication_rule(row["id"], {"lifetime": lifetime_sec})
        return str(row["id"])

    def _our_rule(self, did: str, rse_expression: str, copies: int) -> dict[str, Any] | None:
        ours = (self._config.account, rse_expression, copies)
        for row in self._client.list_did_rules(self._config.scope, did):
            if (row["account"], row["rse_expression"], row["copies"]) == ours:
                found: dict[str, Any] = row
                return found
        return None


def _parse_rule(row: dict[str, Any]) -> Rule:
    expires_at: datetime | None = row["expires_at"]
    return Rule(
        rule_id=str(row["id"]),
        state=RuleState(row["state"]),
        rse_expression=str(row["rse_expression"]),
        locks_ok=int(row["locks_ok_cnt"]),
        locks_replicating=int(row["locks_replicating_cnt"]),
        locks_stuck=int(row["locks_stuck_cnt"]),
        error=str(row["error"] or ""),
        account=str(row["account"]),
        expires_at=expires_at.replace(tzinfo=UTC) if expires_at else None,
    )


def _batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), MAX_NAMES_PER_CALL):
        yield items[start : start + MAX_NAMES_PER_CALL]
