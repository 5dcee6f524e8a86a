"""`manage.py verify_audit`: check that the audit is complete and unchanged."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, FileType
from contextlib import suppress
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from wms2_project.access.audit import AuditBroken, flaws, seal_pending
from wms2_project.models import AuditEvent

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

    def handle(self, *args: Any, **options: Any) -> None:
        """Report the flaws and fail, or print the head of the chain."""
        with suppress(AuditBroken):  # reported by flaws()
            while seal_pending():
                pass
        found = list(islice(flaws(), MOST))
        heads = set(options["head"])
        if options["heads"]:
            heads.update((int(one[1]), one[2]) for one in HEAD.finditer(options["heads"].read()))
        for number, seal in sorted(heads):
            if not AuditEvent.objects.filter(number=number, seal=seal).exists():
                found.append(f"number {number} is not in the chain as it was: the end was cut off")
        if found:
            raise CommandError("\n".join(["the audit is not whole:", *found]))
        head = AuditEvent.objects.filter(number__isnull=False).order_by("-number").first()
        self.stdout.write(f"whole; head {head.number}:{head.seal}" if head else "whole; empty")


def _head(text: str) -> tuple[int, str]:
    found = HEAD.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r:.80} is not NUMBER:SEAL as an earlier run printed it")
    return int(found[1]), found[2]
