"""A layout cannot hold anything that could become a line of a DAG file."""

from __future__ import annotations

from typing import Any

import pytest

from condor.layout import Asset, DagLayout, GroupLayout, NodeLayout, Retries, Throttles
from tests.unit.condor.factories import WORKFLOW_ID, make_group, make_layout, make_node
from wms2_project.errors import InvalidInput

ATTACKS = (
    'x"\ninclude : touch /tmp/pwned |',
    "x\nJOB evil /bin/sh",
    "a b",
    "$(HOME)",
    "a;b",
    "..",
    "",
    "tête",
    "x\x00",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_request_name_takes_plain_names_only(attack: str) -> None:
    with pytest.raises(InvalidInput, match="request_name"):
        make_layout(request_name=attack)


@pytest.mark.parametrize("attack", [*ATTACKS, WORKFLOW_ID.upper(), WORKFLOW_ID.replace("-", "")])
def test_workflow_id_must_be_a_canonical_uuid(attack: str) -> None:
    with pytest.raises(InvalidInput, match="workflow_id"):
        make_layout(workflow_id=attack)


@pytest.mark.parametrize("attack", [*ATTACKS, "T9_US_FNAL", "T1_US_FNAL,T2_CH_CERN"])
def test_sites_are_site_names(attack: str) -> None:
    with pytest.raises(InvalidInput, match="sites"):
        make_group(0, sites=("T1_US_FNAL", attack))


def test_group_without_sites_is_refused() -> None:
    with pytest.raises(InvalidInput, match="names 0 sites"):
        make_group(0, sites=())


@pytest.mark.parametrize("name", [*ATTACKS, "mg_1", "mg_0000000", "merge"])
def test_group_names_have_one_form(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        GroupLayout(name, ("T1_US_FNAL",), [make_node(0)], b"")


@pytest.mark.parametrize("name", [*ATTACKS, "landing", "proc_1", "proc_000000\n"])
def test_node_names_have_one_form(name: str) -> None:
    node = NodeLayout(name, memory_mb=1, cpus=1, disk_kb=1, wall_minutes=1)
    with pytest.raises(InvalidInput, match="nodes"):
        GroupLayout("mg_000000", ("T1_US_FNAL",), [node], b"")


def test_a_merge_of_the_groups_own_is_named_so() -> None:
    with pytest.raises(InvalidInput, match="merge"):
        GroupLayout("mg_000000", ("T1_US_FNAL",), [make_node(0)], b"", merge=make_node(1))


def test_group_refuses_the_same_node_twice() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        GroupLayout("mg_000000", ("T1_US_FNAL",), [make_node(0), make_node(0)], b"")


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", float("nan"), 10**30])
@pytest.mark.parametrize("field", ["memory_mb", "cpus", "disk_kb", "wall_minutes"])
def test_resources_are_bounded_whole_numbers(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=field):
        make_node(0, **{field: value})


@pytest.mark.parametrize("path", ["../run.sh", "/etc/passwd", "a//b", "a/../b", ".ssh/x", "a\nb", "", "a b"])
def test_assets_stay_inside_the_directory(path: str) -> None:
    with pytest.raises(InvalidInput, match="path"):
        Asset(path, b"")


def test_two_assets_cannot_share_a_path() -> None:
    with pytest.raises(InvalidInput, match="assets"):
        make_layout(assets=(Asset("a", b"1"), Asset("a", b"2")))


def test_throttles_refuse_zero_and_retries_allow_it() -> None:
    assert Retries(processing=0).processing == 0
    with pytest.raises(InvalidInput, match="merge_groups"):
        Throttles(merge_groups=0)


def test_service_nodes_keep_their_names() -> None:
    with pytest.raises(InvalidInput, match="merge"):
        make_layout(merge=make_node(0))


def test_defaults_are_a_legal_layout() -> None:
    layout = DagLayout("req", WORKFLOW_ID, [make_group(0)])
    assert (layout.throttles.merge_groups, layout.retries.processing) == (10, 3)
