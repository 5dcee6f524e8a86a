"""Rucio: locations of files, and containers, blocks, replicas and rules of outputs.

Every `ensure_` method may be repeated at any time: what exists is adopted if it is what was intended. CMS
datasets, blocks and files are Rucio's containers, datasets and files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from rucio.common import exception as rucio_errors

from cms.rse_protocols import storage_prefixes
from cms.rucio_session import MemoryTokenClient, RucioConfig, connect, translated_errors
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
    """Client of one account. Logs in at the first call."""

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
        """Return the storages with an available replica of each file; an empty tuple if there are none."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(lfns, ())
        for batch in _batches([self._did(lfn) for lfn in found]):
            with translated_errors(f"list the replicas of {len(batch)} files"):
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
        with translated_errors(f"declare {lfn} at {rse} {verdict}"):
            if verdict is ReplicaVerdict.BAD:
                refused = self._client.declare_bad_file_replicas([{**self._did(lfn), "rse": rse}], reason)
            else:
                pfn = self._pfn(lfn, rse)
                if not pfn:
                    return False
                refused = self._client.declare_suspicious_file_replicas([pfn], reason)
        messages = [str(message) for errors in (refused or {}).values() for message in errors]
        left = [message for message in messages if not message.endswith(ALREADY_DECLARED)]
        if any(not message.endswith(UNKNOWN_REPLICA) for message in left):
            raise ServiceRejected(f"Rucio did not declare {lfn} at {rse} {verdict}: {left[0][:300]}")
        return not left

    def _pfn(self, lfn: str, rse: str) -> str:
        """Return a physical name of the file at the storage, '' if Rucio has no copy there."""
        rows = self._client.list_replicas([self._did(lfn)], rse_expression=rse, all_states=True)
        return next((str(pfn) for row in rows for pfn in sorted(row["rses"].get(rse, ()))), "")

    def ensure_container(self, name: str) -> None:
        """Create the container of a dataset unless it exists."""
        self._ensure_did(check(Name.DATASET, name), CONTAINER)

    def ensure_block(self, block_name: str, container: str, rse: str, files: Sequence[BlockFile]) -> None:
        """Create the block, closed, inside the container, with exactly these files at the storage."""
        check(Name.BLOCK, block_name)
        check(Name.RSE, rse)
        is_new = self._ensure_did(block_name, BLOCK)
        with translated_errors(f"register block {block_name} at {rse}"):
            for batch in _batches([self._file(file) for file in files]):
                self._client.add_replicas(rse, [{**file, "state": "A"} for file in batch])
            self._attach_files(block_name, files, is_new=is_new)
            self._attach_block(block_name, container)
            self._close(block_name)

    def block_counts(self, block_name: str) -> FileCounts | None:
        """Return Rucio's files and bytes in a block; None if it does not know it."""
        with translated_errors(f"list the files of {block_name}"):
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
        """Return the id of the account's rule for this name, expression and copies; create it if missing."""
        with translated_errors(f"make a rule for {did} at {rse_expression}"):
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
        """Return the rule; None if Rucio has none with this id."""
        with translated_errors(f"read rule {rule_id}"):
            try:
                return _parse_rule(self._client.get_replication_rule(rule_id))
            except rucio_errors.RuleNotFound:
                return None

    def find_rule(self, did: str, rse_expression: str, *, copies: int = 1) -> str | None:
        """Return the id of the account's rule for this name, expression and number of copies, if any."""
        with translated_errors(f"list the rules of {did}"):
            try:
                row = self._our_rule(did, rse_expression, copies)
            except rucio_errors.DataIdentifierNotFound:
                return None
            return str(row["id"]) if row else None

    def boost_rule(self, rule_id: str) -> None:
        """Make Rucio retry a STUCK rule at once."""
        with translated_errors(f"boost rule {rule_id}"):
            self._client.update_replication_rule(rule_id, {"boost_rule": True})

    def delete_rule(self, rule_id: str) -> None:
        """Delete the rule. Rucio keeps it for up to an hour; a missing rule is not an error.

        Rules of other accounts are refused, regardless of the rights of this account in Rucio.
        """
        found = self.rule(rule_id)
        if found is None:
            return
        if found.account != self._config.account:
            raise ServiceRejected(
                f"rule {rule_id} belongs to {found.account}, not to {self._config.account}",
                cure="Find out who took it over. WMS2 deletes only rules of its own account",
            )
        with translated_errors(f"delete rule {rule_id}"):
            try:
                self._client.delete_replication_rule(rule_id)
            except rucio_errors.RuleNotFound:
                return

    def closed_datasets(self, pattern: str, *, since: datetime) -> list[str]:
        """Return the containers closed since then whose names match a pattern with `*`, sorted.

        Rucio filters by the time of the last closing: a container that was opened again is included.
        """
        filters = [{"name": pattern, "closed_at.gte": since.astimezone(UTC)}]
        with translated_errors(f"list the datasets {pattern} closed since {since:%F %R}"):
            return sorted(self._client.list_dids(self._config.scope, filters, did_type="container"))

    def rses(self, expression: str) -> list[str]:
        """Return the storages of an expression, sorted; an empty list if there are none."""
        with translated_errors(f"resolve the storage expression {expression}"):
            try:
                return sorted(row["rse"] for row in self._client.list_rses(expression))
            except rucio_errors.InvalidRSEExpression as error:
                if EMPTY_EXPRESSION in str(error):
                    return []
                raise

    def used_fraction(self, rse: str) -> float | None:
        """Return how full a storage is, from 0 to 1; None if it does not report it."""
        check(Name.RSE, rse)
        with translated_errors(f"read the usage of {rse}"):
            try:
                usage = list(self._client.get_rse_usage(rse, filters={"source": "storage"}))
            except rucio_errors.RSENotFound:
                return None
        if not usage or usage[0]["free"] is None or not usage[0]["total"]:
            return None
        return float(usage[0]["used"] / usage[0]["total"])

    def storage_prefixes(self, rse: str) -> tuple[str, ...]:
        """Return the URL prefixes of a storage, the preferred one first; none if it has or is none."""
        check(Name.RSE, rse)
        with translated_errors(f"read the protocols of {rse}"):
            try:
                return storage_prefixes(self._client.get_rse(rse)["protocols"])
            except rucio_errors.RSENotFound:
                return ()

    def subscriptions_matching(self, dataset: str) -> list[Destination]:
        """Return the destinations of Rucio's subscriptions for this dataset, one per expression."""
        check(Name.DATASET, dataset)
        with translated_errors(f"list the subscriptions for {dataset}"):
            rows = list(self._client.list_subscriptions())
        return destinations(rows, dataset=dataset, scope=self._config.scope, account=self._config.account)

    def _did(self, name: str) -> dict[str, str]:
        return {"scope": self._config.scope, "name": name}

    def _file(self, file: BlockFile) -> dict[str, Any]:
        check(Name.LFN, file.lfn)
        return {**self._did(file.lfn), "bytes": file.size_bytes, "adler32": file.adler32}

    def _ensure_did(self, name: str, did_type: str) -> bool:
        """Create the name unless it exists; return whether it is new."""
        with translated_errors(f"create {name}"):
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
                # Rucio attaches all or nothing, and a concurrent attempt attached some of them.
                attached = self._attached(block_name, files)
                self._attach(block_name, [file for file in batch if file.lfn not in attached])

    def _attach(self, block_name: str, files: Sequence[BlockFile]) -> None:
        """Attach with size and checksum, so that Rucio refuses a name with other data."""
        if files:
            self._client.attach_dids(self._config.scope, block_name, [self._file(file) for file in files])

    def _attached(self, block_name: str, files: Sequence[BlockFile]) -> set[str]:
        """Return the files already in the block; raise ServiceRejected if others are among them."""
        ours = {file.lfn: (file.size_bytes, file.adler32) for file in files}
        theirs = {
            row["name"]: (row["bytes"], row["adler32"])
            for row in self._client.list_content(self._config.scope, block_name)
        }
        strange = sorted(lfn for lfn, facts in theirs.items() if ours.get(lfn) != facts)
        if strange:
            raise ServiceRejected(
                f"Rucio has block {block_name} with {len(strange)} unknown files, such as {strange[0]}",
                cure="Find out who registered it. A closed block never changes",
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
        """Return the existing rule; if it was deleted or expires, set its lifetime again."""
        row = self._our_rule(did, rse_expression, copies)
        if row is None:
            raise ServiceUnavailable(
                f"Rucio's rule for {did} at {rse_expression} vanished while WMS2 adopted it"
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
