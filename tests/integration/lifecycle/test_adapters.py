"""Adapters are built from the settings, and replaced only while others are injected."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from condor.fake import FakePool, FakeSchedd
from dags_app.adapters import NotConfigured, build_dbs, dbs, rucio, schedd, use_adapters


def test_an_adapter_is_made_once() -> None:
    assert dbs() is dbs()
    assert dbs(quick=True) is not dbs()


def test_only_injected_adapters_are_replaced_and_only_for_the_block() -> None:
    real, kept, stand_in = dbs(), rucio(), object()
    with use_adapters(dbs=stand_in):
        assert (dbs(), dbs(quick=True), rucio()) == (stand_in, stand_in, kept)
        with pytest.raises(ZeroDivisionError), use_adapters(dbs=object()):
            raise ZeroDivisionError
        assert dbs() is stand_in
    assert dbs() is real


def test_injected_adapters_are_visible_in_other_threads() -> None:
    stand_in, seen = object(), list[Any]()
    with use_adapters(dbs=stand_in):
        thread = Thread(target=lambda: seen.append(dbs()))
        thread.start()
        thread.join()
    assert seen == [stand_in]


def test_schedds_are_injected_one_for_all_or_by_name(settings: Any) -> None:
    settings.SCHEDDS = ["a@pool", "b@pool"]
    one, pool = FakeSchedd(), FakePool()
    with use_adapters(schedd=one):
        assert schedd("a@pool") is schedd("b@pool") is one
    with use_adapters(schedd=pool):
        assert (schedd("a@pool"), schedd("b@pool")) == (pool["a@pool"], pool["b@pool"])
        settings.SCHEDDS = []
        assert schedd("a@pool") is schedd(), "the pool's own, whatever its name"


def test_a_service_without_an_address_is_named(settings: Any) -> None:
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"dbs_url": ""}
    with pytest.raises(NotConfigured, match="dbs_url is not set"):
        build_dbs()
