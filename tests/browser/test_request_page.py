"""The request page in Chromium: from a hold to its release, from the graph to a log, without a reload."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from dags_app.models import DAG, FailureCluster, MergeGroup
from dags_app.states import DAGStatus, GroupStatus
from requests_app.models import ProgressSample, Request
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from sites_app.models import SiteBan
from tests.browser.conftest import PHONE, PageAs
from tests.browser.guarding import check_accessible
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round
from tests.integration.recovery.factories import write_record
from wms2_project.access.roles import Role
from wms2_project.changes import announce_requests

CERN, PURDUE = "T2_CH_CERN", "T2_US_Purdue"
HOSTILE = "<img src=x onerror=alert(1)></pre><script>alert(2)</script>{{ 7*7 }}"
GROUP_DAG = Path(__file__).parents[1] / "unit/condor/golden/group.dag"
LOG_BYTES = 5_000_000
GROUPS = 80  # of a large graph
TONES_OF_NODES = """() => {
  const { view, data } = document.getElementById("graph").graph;
  const found = {};
  for (const group of data.groups) {
    for (const [left, top] of data.nodes.get(group.key).places) {
      const zoom = view.scale * view.ratio;
      const [x, y] = [(group.x + left + 1.6 - view.x) * zoom, (group.y + top + 1.6 - view.y) * zoom];
      const colour = view.context.getImageData(x, y, 1, 1).data.join();
      found[colour] = (found[colour] ?? 0) + 1;
    }
  }
  return found;
}"""


def address(row: Request) -> str:
    return f"/admin/requests_app/request/{row.pk}/change/"


def open_page(page: Page, row: Request) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(address(row))
    expect(page.locator("#graph-summary")).not_to_have_text("Reading the graph…")


def leased(row: Request) -> Request:
    """Return the row as it is in the database, under a lease that no worker takes."""
    Request.objects.filter(pk=row.pk).update(next_check_at=timezone.now().replace(year=2100))
    row.refresh_from_db()
    return row


@pytest.fixture
def held(tmp_path: Path) -> Request:
    """Return a held request: all jobs at one site failed, in a DAG and in its rescue."""
    row = make_request(status=RequestStatus.HELD, last_error=f"3 of 10 groups failed {HOSTILE}")
    round_ = make_round(row.workflow)
    tmp_path.chmod(0o755)
    first = make_dag(round_, status=DAGStatus.PARTIAL, submit_dir=str(tmp_path), completed_at=ago(hours=1))
    rescue = make_dag(
        round_, status=DAGStatus.PARTIAL, submit_dir=str(tmp_path), completed_at=timezone.now(), parent=first
    )
    make_group(round_, status=GroupStatus.COLLECTED, site=CERN, jobs=2)
    make_group(round_, status=GroupStatus.FAILED, site=PURDUE, jobs=2, nodes_done=1, nodes_failed=2)
    for dag in (first, rescue):
        FailureCluster.objects.create(
            dag=dag, workflow=row.workflow, fingerprint="a" * 16, site=PURDUE, jobs=9, exit_code=71102,
            category="infrastructure", message="gone", example=HOSTILE, log_tail=HOSTILE,
            groups=["mg_000001"], node="mg_000001/proc_000000", jobs_at_site=9, failed_elsewhere=0,
            jobs_elsewhere=20,
        )  # fmt: skip
    for minutes, done in ((90, 0), (30, 60)):
        ProgressSample.objects.create(
            request=row, at=ago(minutes=minutes), status="active", events_total=100, events_done=done
        )
    write_files(tmp_path)
    return leased(row)


def write_files(directory: Path) -> None:
    """Write two groups with a failed node, whose log is long and hostile."""
    for number in range(2):
        group = directory / f"mg_{number:06d}"
        group.mkdir()
        (group / "group.dag").write_bytes(GROUP_DAG.read_bytes())
    write_record(group, "proc_000000", site=PURDUE, exit_code=71102, message=HOSTILE)
    (group / "proc_000000.err").write_text(
        "a line of the log\n" * (LOG_BYTES // 18) + f"{HOSTILE} the last line\n"
    )


def node_at(page: Page, *, group: int, node: str) -> tuple[float, float]:
    """Return the position of a node on the screen."""
    box = page.locator("#graph-canvas").bounding_box()
    assert box is not None
    place = page.evaluate(
        """([index, name]) => {
          const { view, data } = document.getElementById("graph").graph;
          const group = data.groups.find((one) => one.index === index);
          const { names, places } = data.nodes.get(group.key);
          const [left, top] = places[names.indexOf(name)];
          const [x, y] = [group.x + left + 1.5, group.y + top + 1.5];
          return [(x - view.x) * view.scale, (y - view.y) * view.scale];
        }""",
        [group, node],
    )
    return box["x"] + place[0], box["y"] + place[1]


def panel_of(page: Page) -> Locator:
    return page.locator("#graph-panel")


def test_a_hold_is_released_with_a_ban_in_a_few_clicks(page_as: PageAs, held: Request) -> None:
    page = page_as(Role.OPERATOR)
    open_page(page, held)
    page.locator(".wms2-cell", has_text="9").click()
    cause = page.locator("#clusters > li:visible")
    expect(cause).to_have_count(1)
    expect(cause).to_contain_text("in 2 DAGs")
    cause.get_by_role("link", name="Release with a site ban").click()
    expect(page.get_by_label("Sites to ban")).to_have_value(PURDUE)
    expect(page.locator("#action-effects")).to_contain_text(PURDUE)
    page.get_by_label("Reason").fill("the site has lost its storage")
    page.get_by_role("button", name="Release").click()
    expect(page.locator("#live-request-status .wms2-status").first).to_contain_text("queued")
    assert SiteBan.objects.filter(workflow=held.workflow, site_id=PURDUE).count() == 1
    expect(page.locator("#live-request-work")).to_contain_text("the site has lost its storage")


def test_the_graph_leads_to_the_log_of_a_node(page_as: PageAs, held: Request) -> None:
    page = page_as(Role.VIEWER)
    open_page(page, held)
    canvas = page.locator("#graph-canvas")
    canvas.scroll_into_view_if_needed()
    page.get_by_role("button", name="Next failure").click()
    expect(panel_of(page)).to_contain_text("Group 1 of round 0")
    expect(panel_of(page).get_by_role("button", name="landing")).to_be_visible()  # the nodes are read
    assert panel_of(page).get_by_role("button", name="proc_000000: failed").count() == 0  # no status file
    canvas.focus()
    before = page.evaluate("document.getElementById('graph').graph.view.scale")
    x, y = node_at(page, group=1, node="proc_000000")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -120)
    page.wait_for_function("before => document.getElementById('graph').graph.view.scale > before", arg=before)
    page.mouse.click(*node_at(page, group=1, node="proc_000000"))
    panel = panel_of(page)
    expect(panel).to_contain_text("mg_000001/proc_000000")
    expect(panel).to_contain_text("Attempt 1: infrastructure 71102")
    expect(panel).to_contain_text(f"{HOSTILE} the last line")
    assert len(panel.inner_text()) < 100_000
    assert page.locator("#content img[src=x]").count() == 0


def test_all_nodes_of_a_large_graph_are_drawn(page_as: PageAs, tmp_path: Path) -> None:
    """The pixel in the middle of every node has a colour of a state."""
    row = leased(make_request(status=RequestStatus.ACTIVE))
    round_ = make_round(row.workflow)
    make_dag(round_, submit_dir=str(tmp_path))
    tmp_path.chmod(0o755)
    names = ["landing", *(f"proc_{number:06d}" for number in range(47)), "merge", "cleanup"]
    text = "".join(f"JOB {name} ../{name.partition('_')[0]}.sub\n" for name in names)
    for number in range(GROUPS):
        make_group(round_, jobs=47, status=GroupStatus.COLLECTED if number % 2 else GroupStatus.PLANNED)
        group = tmp_path / f"mg_{number:06d}"
        group.mkdir()
        (group / "group.dag").write_text(text)
    page = page_as(Role.VIEWER, viewport={"width": 1920, "height": 1080})
    open_page(page, row)
    page.wait_for_function("performance.getEntriesByName('wms2-nodes-ready').length")
    tones = page.evaluate(TONES_OF_NODES)
    assert len(tones) == 2  # waiting and done
    assert sum(tones.values()) == GROUPS * len(names)
    assert len(set(tones.values())) == 1


def test_a_page_follows_a_request_to_its_end_without_a_reload(page_as: PageAs) -> None:
    row = leased(make_request(status=RequestStatus.ACTIVE))
    round_ = make_round(row.workflow, input_events=100)
    group = make_group(round_, site=CERN)
    make_dag(round_, total_nodes=7)
    page = page_as(Role.VIEWER)
    open_page(page, row)
    page.evaluate("window.kept = true")
    page.locator("#passed-gates summary").click()
    page.mouse.wheel(0, 200)
    MergeGroup.objects.filter(pk=group.pk).update(nodes_done=3, nodes_running=2)
    announce_requests(row.request_name)
    expect(page.locator("#live-request-status")).to_contain_text("3 of 7 nodes")
    page.wait_for_function("document.getElementById('graph').graph.data.groups[0].done === 3")
    MergeGroup.objects.filter(pk=group.pk).update(
        status=GroupStatus.COLLECTED, events_read=100, events_written=100, finished_at=timezone.now()
    )
    DAG.objects.filter(round=round_).update(status=DAGStatus.COMPLETED, completed_at=timezone.now())
    row.refresh_from_db()
    transition(request=row, to=RequestStatus.COMPLETED, reason="all work is done", actor="system:lifecycle")
    status = page.locator("#live-request-status")
    expect(status.locator(".wms2-status").first).to_contain_text("completed")
    expect(status).to_contain_text("1 of 1 groups")
    expect(page.locator("#live-request-work")).to_contain_text("all work is done")
    assert page.evaluate("window.kept") is True
    assert page.evaluate("document.querySelector('#passed-gates')?.open ?? true") is True


def test_the_slider_shows_an_earlier_state_and_returns_to_now(page_as: PageAs, held: Request) -> None:
    begin = ago(hours=2)
    Request.objects.filter(pk=held.pk).update(created_at=begin)
    held.transitions.create(
        to_status=RequestStatus.HELD, from_status=RequestStatus.ACTIVE, reason=f"failed {HOSTILE}",
        actor="system:lifecycle", at=begin, evidence={"failed": 7},
    )  # fmt: skip
    page = page_as(Role.VIEWER)
    open_page(page, held)
    slider = page.get_by_label("State at")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("PageDown")
    page.keyboard.press("ArrowRight")
    state = page.locator("#time-state")
    expect(state).to_contain_text("Status then")
    expect(state).to_contain_text(HOSTILE)
    state.get_by_text("Evidence of the hold").click()
    expect(state.get_by_text('"failed": 7')).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    expect(state).to_be_hidden()


def test_a_keyboard_is_enough_for_the_graph(page_as: PageAs, held: Request) -> None:
    page = page_as(Role.VIEWER)
    open_page(page, held)
    page.locator("#graph-mode").focus()
    while page.evaluate("document.activeElement.id") != "graph-canvas":
        page.keyboard.press("Tab")
    for key in ("+", "ArrowRight", "-", "ArrowLeft", "0", "n"):
        page.keyboard.press(key)
    expect(panel_of(page)).to_contain_text("Group 1 of round 0")
    page.keyboard.press("Tab")
    expect(panel_of(page).get_by_role("button", name="Close")).to_be_focused()
    first_node = panel_of(page).get_by_role("button", name="landing")
    expect(first_node).to_be_visible()  # the nodes are read after the group
    page.keyboard.press("Tab")
    expect(first_node).to_be_focused()
    MergeGroup.objects.filter(round__workflow=held.workflow, index=1).update(nodes_running=4)
    announce_requests(held.request_name)
    expect(panel_of(page)).to_contain_text("4 running")
    expect(first_node).to_be_focused()  # the panel is changed in place
    page.keyboard.press("Enter")
    expect(panel_of(page)).to_contain_text("Memory")
    expect(panel_of(page)).to_be_focused()
    page.locator("#graph-groups summary").press("Enter")
    page.get_by_role("button", name="Open group 0 of round 0").press("Enter")
    expect(panel_of(page)).to_contain_text("Group 0 of round 0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_request_page_is_accessible(page_as: PageAs, held: Request, scheme: str) -> None:
    page = page_as(Role.OPERATOR, color_scheme=scheme)
    open_page(page, held)
    page.get_by_role("button", name="Next failure").click()
    expect(panel_of(page)).to_be_visible()
    check_accessible(page)


def test_a_phone_shows_the_page_without_scrolling_sideways(page_as: PageAs, held: Request) -> None:
    page = page_as(Role.OPERATOR, viewport=PHONE, has_touch=True)
    open_page(page, held)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize(("status", "picture"), [("held", "request-held"), ("active", "request-running")])
def test_pictures_of_the_page_for_the_documentation(
    page_as: PageAs, pictures: Path, status: str, picture: str
) -> None:
    fleet = Request.objects.filter(status=status, owner="lab:fleet")
    row = fleet.exclude(workflow__failures=None).order_by("request_name")[0]
    page = page_as(Role.OPERATOR, viewport={"width": 1440, "height": 1750})
    open_page(page, row)
    expect(page.locator(".wms2-burndown")).to_be_visible()
    page.screenshot(path=pictures / f"{picture}.png")
    assert re.fullmatch(
        r"[\d,]+ rounds?, [\d,]+ groups?, [\d,]+ nodes?; .*", page.inner_text("#graph-summary")
    )
