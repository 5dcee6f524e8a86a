"""Rows for tests, made through the models: each function creates one row and the rows that it requires."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from chains_app.cwl.types import Link, Port, Tool, ToolOutput, to_json
from chains_app.cwl.types import Step as CwlStep
from chains_app.cwl.types import Workflow as CwlWorkflow
from chains_app.models import Chain, Template
from chains_app.services.announcing import announce
from chains_app.states import TemplateStatus
from condor.fake import FakeSchedd
from dags_app.models import (
    DAG,
    InputFile,
    MergeGroup,
    QuarantinedReplica,
    Round,
    SecondaryDataset,
    Workflow,
)
from dags_app.services.ledger import tally
from dags_app.states import DAGStatus, SplittingAlgo
from outputs_app.models import DatasetClaim, OutputBlock, OutputDataset, OutputFile
from outputs_app.states import BlockStatus
from requests_app.models import Request, StatusTransition
from requests_app.states import RequestStatus
from sites_app.models import Site
from wms2_project.access.roles import Role
from wms2_project.access.tokens import issue_token

_numbers = count(1)
OWN_SITE = "T2_XX_Nowhere"  # whose admin a site admin made here is

DOCUMENT: dict[str, Any] = {
    "request_name": "ana_Muons_2031A_v1",
    "requestor": "ana",
    "campaign": "Muons2031",
    "priority": 250_000,
    "input_dataset": "/Muons/Run2031A-v1/RAW",
    "output_datasets": ["/Muons/Run2031A-First-v1/AOD"],
    "acquisition_era": "Run2031A",
    "processing_string": "First",
    "processing_version": 1,
    "cmssw_version": "CMSSW_20_0_1",
    "scram_arch": "el9_amd64_gcc14",
    "global_tag": "200X_data_v1",
    "memory_mb": 2000,
    "splitting_algo": "FileBased",
    "splitting_params": {"files_per_job": 3},
    "payload_config": {"kind": "toy"},  # else a document with a release runs CMSSW
}


def make_document(**changes: Any) -> dict[str, Any]:
    """Create a document with a name and an output dataset of its own."""
    number = next(_numbers)
    own = {
        "request_name": f"ana_Muons_2031A_d{number}",
        "output_datasets": [f"/Muons/Run2031A-Doc{number}-v1/AOD"],
    }
    return DOCUMENT | own | changes


def make_user(username: str = "", *, role: Role | None = None, **values: Any) -> User:
    """Create a person with this role; superusers are admins."""
    username = username or f"person{next(_numbers)}"
    values.setdefault("is_staff", role is not None and role >= Role.SITE_ADMIN)
    user = User.objects.create_user(username, **values)  # without a password: hashing one takes a second
    if role is Role.ADMIN:
        user.is_superuser = user.is_staff = True
        user.save()
    elif role is not None and role is not Role.ANONYMOUS:
        name = f"site_admin:{OWN_SITE}" if role is Role.SITE_ADMIN else role.name.lower()
        user.groups.add(Group.objects.get_or_create(name=name)[0])
    return user


def make_token(user: User, **values: Any) -> str:
    """Create a token of the user; return its clear text."""
    name = f"test{next(_numbers)}"
    return issue_token(user=user, name=name, actor="system:test", reason="a test", **values)


def make_workflow(**values: Any) -> Workflow:
    """Create a workflow that reads a dataset."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "request_name": f"request_{number:06d}",
        "input_dataset": "/Muons/Run2031A-v1/RAW",
        "output_datasets": ["/Muons/Run2031A-First-v1/AOD"],
        "splitting_algo": SplittingAlgo.FILE_BASED,
        "located_at": timezone.now() + timedelta(days=1),  # no lookup in Rucio
    }
    return Workflow.objects.create(**(defaults | values))


def make_request(*, status: RequestStatus = RequestStatus.SUBMITTED, **values: Any) -> Request:
    """Create a request in this status, with its workflow and the row of the transition."""
    workflow = values.pop("workflow", None) or make_workflow(
        **({"request_name": values["request_name"]} if "request_name" in values else {})
    )
    defaults: dict[str, Any] = {
        "request_name": workflow.request_name,
        "workflow": workflow,
        "request_data": {"request_name": workflow.request_name, "note": "verbatim"},
        "requestor": "ana",
        "submitted_by": "ana",
        "campaign": "Muons2031",
        "status": status,
        "status_since": timezone.now(),
    }
    values.setdefault("rank", float(values.get("priority", 100_000)))
    request = Request.objects.create(**(defaults | values))
    StatusTransition.objects.create(
        request=request,
        to_status=status,
        reason="made for a test",
        actor="system:test",
        at=request.status_since,
    )
    return request


def make_round(workflow: Workflow, **values: Any) -> Round:
    """Create a round of the workflow."""
    return Round.objects.create(
        **({"workflow": workflow, "number": workflow.rounds.count(), "jobs": 4} | values)
    )


def make_dag(round_: Round, **values: Any) -> DAG:
    """Create a DAG of the round, by default running."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "workflow": round_.workflow,
        "round": round_,
        "status": DAGStatus.RUNNING,
        "token": f"wms2-{number}",
        "dagman_cluster_id": None if values.get("status") == DAGStatus.READY else number,
        "submit_dir": f"/srv/dags/{number}",
        "submitted_at": timezone.now(),
        "total_nodes": 10,
        "node_counts": {"Processing": 8, "Merge": 1, "Cleanup": 1},
        "nodes_done": 4,
        "nodes_running": 3,
    }
    return DAG.objects.create(**(defaults | values))


def queue_dag(
    schedd: FakeSchedd, dag: DAG, groups: Mapping[str, Mapping[str, int]] | None = None, **ad: Any
) -> FakeSchedd:
    """Put the DAG into the schedd's queue unless it is there, with the DAGMans of these groups."""
    if not schedd.jobs(dag.token):
        schedd.add_dag(dag.token, directory=dag.submit_dir, ClusterId=dag.dagman_cluster_id, **ad)
        for name, counts in (groups or {}).items():
            schedd.start_group(dag.token, name, **counts)
    return schedd


def make_group(round_: Round, **values: Any) -> MergeGroup:
    """Create a merge group of the round."""
    defaults: dict[str, Any] = {
        "round": round_,
        "index": round_.groups.count(),
        "jobs": 4,
        "input_events": 100,
    }
    return MergeGroup.objects.create(**(defaults | values))


def make_file(workflow: Workflow, **values: Any) -> InputFile:
    """Create an input file of the workflow."""
    lfn = f"/store/data/Run2031A/{next(_numbers):06d}.root"
    file = InputFile.objects.create(
        **({"workflow": workflow, "lfn": lfn, "size_bytes": 1_000_000, "events": 100} | values)
    )
    tally(workflow=workflow)
    return file


def make_quarantined(dag: DAG, **values: Any) -> QuarantinedReplica:
    """Create a copy of a file at CERN that a job of the DAG found corrupt."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "lfn": f"/store/data/Run2031A/{next(_numbers):06d}.root", "site": "T2_CH_CERN", "exit_code": 8022,
        "proof": "checksum 11112222 where 33334444 was planned", "dag": dag, "workflow": dag.workflow,
        "created_at": now, "proved_at": now, "expires_at": now + timedelta(days=1),
    }  # fmt: skip
    return QuarantinedReplica.objects.create(**(defaults | values))


def make_secondary(name: str, **values: Any) -> SecondaryDataset:
    """Create a pileup dataset of one file at CERN, resolved just now."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "lfns": ["/store/mc/pileup.root"], "files": 1, "places": [[["T2_CH_CERN"], 1]], "resolved_at": now,
        "located_at": now,
    }  # fmt: skip
    return SecondaryDataset.objects.create(name=name, **(defaults | values))


def make_claim(workflow: Workflow, dataset: str) -> DatasetClaim:
    """Create the workflow's claim on the dataset: as owner if there is none, else by permission."""
    owned = DatasetClaim.objects.filter(dataset_name=dataset, is_owner=True, released_at=None).exists()
    now = timezone.now()
    values = {"chain": workflow, "is_owner": not owned, "claimed_at": now, "checked_at": now}
    values |= {"allowed_by": "user:olga", "allowed_reason": "a test"} if owned else {}
    return DatasetClaim.objects.get_or_create(workflow=workflow, dataset_name=dataset, defaults=values)[0]


def make_block(group: MergeGroup, *, status: BlockStatus = BlockStatus.PENDING, **values: Any) -> OutputBlock:
    """Create a closed block of the workflow's first dataset with one file, made by the group."""
    number = next(_numbers)
    workflow = group.round.workflow
    dataset, _ = OutputDataset.objects.get_or_create(
        workflow=workflow, dataset_name=workflow.output_datasets[0]
    )
    make_claim(workflow, dataset.dataset_name)
    defaults: dict[str, Any] = {
        "dataset": dataset,
        "block_name": f"{dataset.dataset_name}#{number}",
        "site": "T1_US_FNAL",
        "rse": "T1_US_FNAL_Disk",
        "status": status,
        "closed_at": timezone.now(),
    }
    block = OutputBlock.objects.create(**(defaults | values))
    OutputFile.objects.create(
        block=block,
        group=group,
        lfn=f"/store/data/out/{number}.root",
        size_bytes=5_000_000,
        events=50,
        adler32="0123abcd",
    )
    return block


def make_site(name: str = "T2_CH_CERN", **values: Any) -> Site:
    """Create a site."""
    return Site.objects.create(**({"name": name, "storage_elements": [name]} | values))


def ago(**units: float) -> datetime:
    """Return a time in the past."""
    return timezone.now() - timedelta(**units)


def make_template(
    name: str = "", *, workflow: CwlWorkflow | None = None, approval: bool = False, **values: Any
) -> Template:
    """Create an actual template, by default of one step that reads the announced dataset."""
    tool = Tool(
        inputs=(Port("data", ("Directory",)),),
        outputs=(ToolOutput("out", ("Directory",)),),
        approval=approval,
    )
    one_step = CwlWorkflow(
        inputs=(Port("data", ("Directory",)),),
        steps=(CwlStep("skim", (Link("data", ("data",)),), ("out",), tool=tool),),
        outputs=(Link("skimmed", ("skim/out",)),),
    )
    defaults: dict[str, Any] = {
        "name": name or f"template{next(_numbers)}",
        "version": 1,
        "status": TemplateStatus.ACTUAL,
        "status_since": timezone.now(),
        "mask": "^/Muons/",
        "document": "cwlVersion: v1.2",
        "workflow": to_json(workflow or one_step),
        "created_by": "user:ana",
    }
    return Template.objects.create(**(defaults | values))


def make_chain(**values: Any) -> Chain:
    """Create a started chain of a new template with these values."""
    template = make_template(**values)
    announce(uid=template.name, name=DOCUMENT["input_dataset"], template=template.name, actor="user:ana")
    return Chain.objects.get(template=template)
