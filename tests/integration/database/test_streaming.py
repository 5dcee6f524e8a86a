"""Rows read in chunks: an iterator that is abandoned must not block the process."""

from __future__ import annotations

import gc
from threading import Thread

import pytest
from django.db import connection

from dags_app.models import InputFile
from tests.integration.factories import make_file, make_workflow

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_abandoned_iterator_is_collected_while_its_connection_executes() -> None:
    workflow = make_workflow()
    for number in range(3):
        make_file(workflow, lfn=f"/store/data/stream/{number}.root")
    rows = InputFile.objects.order_by("lfn").iterator(chunk_size=1)
    assert next(rows).lfn.endswith("0.root")

    with connection.connection.lock:  # as during every query
        collecting = Thread(target=rows.close, daemon=True)
        collecting.start()
        collecting.join(20)
        blocked = collecting.is_alive()

    collecting.join(20)
    assert not blocked


def test_a_query_after_an_abandoned_iterator_answers() -> None:
    workflow = make_workflow()
    make_file(workflow, lfn="/store/data/stream/0.root")
    rows = InputFile.objects.iterator(chunk_size=1)
    next(rows)
    with connection.connection.lock:
        rows.close()
    del rows
    gc.collect()
    assert InputFile.objects.count() == 1
