"""`manage.py verify_audit`: check that the audit is complete and unchanged."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, FileType
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wms2_project.access.audit import AuditBroken, flaws, seal_pending
from wms2_project.access.audit_archive import archive_flaws, archived_heads, audit_folder
from wms2_project.models import AuditEvent, AuditHead

HEAD = re.compile(r"\b([0-9]{1,18}):([0-9a-f]{64})\b")
MOST = 100  # flaws reported


class Command(BaseCommand):
    help = "Check every row of the audit and the chain. Exit code 1 if anything was tampered with."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Accept earlier heads: without them a truncated chain is not detectable."""
        parser.add_argument(
            "--head", type=_head, metavar="NUMBER:SEAL", action="append", default=[],
            help="as printed by an earlier run, logged, or shipped to WMS2_AUDIT_HEAD_URL; may be repeated",
        )  # fmt: skip
        parser.add_argument(
            "--heads", type=FileType(), metavar="FILE", help="every NUMBER:SEAL in this file, such as a log"
        )
        parser.add_argument(
            "--archive", type=Path, metavar="DIR",
            help="files of the rows that left the database; default: audit/ in WMS2_ARCHIVE_ROOT",
        )  # fmt: skip
        parser.add_argument(
            "--without-archive", action="store_true", help="check only the rows that are in the database"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Report the flaws and fail, or print the head of the chain."""
        with suppress(AuditBroken):  # reported by flaws()
            while seal_pending():
                pass
        folder = None if options["without_archive"] else options["archive"] or audit_folder()
        found = list(islice(chain(flaws(), archive_flaws(folder) if folder else ()), MOST))
        heads = set(options["head"])
        if options["heads"]:
            heads.update((int(one[1]), one[2]) for one in HEAD.finditer(options["heads"].read()))
        for number in _missing(heads, folder):
            found.append(f"number {number} is not in the chain as it was: the end was cut off")
        if found:
            raise CommandError("\n".join(["the audit is not whole:", *found]))
        head = AuditEvent.objects.filter(number__isnull=False).order_by("-number").first()
        self.stdout.write(f"whole; head {head.number}:{head.seal}" if head else "whole; empty")


def _missing(heads: set[tuple[int, str]], folder: Path | None) -> list[int]:
    """Return the numbers of heads that are not in the chain. Those in files are skipped without the files."""
    dropped = AuditHead.objects.values_list("dropped", flat=True).first() or 0
    filed = {head for head in heads if head[0] <= dropped}
    kept = {
        head for head in heads - filed if AuditEvent.objects.filter(number=head[0], seal=head[1]).exists()
    }
    if filed:
        kept |= archived_heads(folder, {number for number, _ in filed}) if folder else filed
    return sorted(number for number, _ in heads - kept)


def _head(text: str) -> tuple[int, str]:
    found = HEAD.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r:.80} is not NUMBER:SEAL as an earlier run printed it")
    return int(found[1]), found[2]
