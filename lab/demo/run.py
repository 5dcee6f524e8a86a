"""``./wms2 demo``: start a stack, submit the samples, follow them to the end and report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from lab.client import Speak, Stack, running_stack
from lab.demo.api import Api, ApiUnreachable
from lab.demo.display import Display, print_places, print_table
from lab.demo.outputs import Merged, read_outputs
from lab.demo.summary import (
    RequestView,
    build_summary,
    explain_delay,
    explain_loss,
    is_finished,
    parse_view,
)
from lab.disposable import discard, discard_old_runs
from lab.errors import LabError
from lab.paths import Layout
from lab.services.broker import ENABLED as BROKER

LIMIT_SEC = 600.0
POLL_SEC = 1.0
SILENCE_ALLOWED_SEC = 30.0
PIPED_WIDTH = 140
FLAGS = {"--keep", "--json"}


def demo(layout: Layout, arguments: list[str]) -> int:
    if unknown := sorted(set(arguments) - FLAGS):
        raise LabError(f"unknown argument of demo: {' '.join(unknown)}; use --keep or --json", exit_code=2)
    keep, as_json = "--keep" in arguments, "--json" in arguments
    os.environ.setdefault(BROKER, "0")  # the samples announce nothing
    discard_old_runs(layout)
    console = Console(stderr=as_json, width=None if sys.stderr.isatty() else PIPED_WIDTH)
    began, views, urls, error = time.monotonic(), list[RequestView](), dict[str, str](), ""
    merged: dict[str, Merged] = {}
    try:
        with Display(console) as display, running_stack(layout, stay=keep, speak=display.say) as stack:
            urls = stack.state.urls
            documents = sample_documents(stack)
            for views in follow(stack, documents, display.say):
                display.show(views)
            merged = read_outputs(documents, stack.environment)
            print_table(console, views, merged)
            print_places(console, urls, password_file=layout.operator_password)
            stays = keep or not stack.ours
            console.print(
                "The stack stays up; ./wms2 down stops it."
                if stays
                else "The stack goes down now; ./wms2 demo --keep leaves it up."
            )
    except LabError as failure:
        error = str(failure)
        raise
    finally:
        if as_json:
            wall_time_sec = time.monotonic() - began
            summary = build_summary(views, urls=urls, wall_time_sec=wall_time_sec, merged=merged, error=error)
            print(json.dumps(summary))
    discard(layout)
    return 0


def follow(stack: Stack, documents: Sequence[dict[str, Any]], speak: Speak) -> Iterator[list[RequestView]]:
    """Submit the samples and yield their state until all have completed."""
    environment = stack.environment
    api = Api(environment["WMS2_URL"], environment["WMS2_TOKEN"])
    names = [api.submit(document) for document in documents]
    speak(f"submitted {len(names)} requests to {api.url}")
    logs = f"see worker-core.log and worker-io.log in {stack.layout.log}"
    began = heard = time.monotonic()
    views: list[RequestView] = []
    while not is_finished(views):
        stack.check()
        try:
            views = [parse_view(api.request(name), api.timeline(name)) for name in names]
            heard = time.monotonic()
        except ApiUnreachable as error:  # the supervisor may be restarting it
            if time.monotonic() - heard > SILENCE_ALLOWED_SEC:
                raise LabError(
                    f"the API does not answer ({error}), see {stack.layout.log}/web.log"
                ) from error
        yield views
        if loss := explain_loss(views):
            raise LabError(f"{loss}; {logs}")
        if time.monotonic() - began > LIMIT_SEC:
            raise LabError(f"{explain_delay(views, limit_sec=LIMIT_SEC)}; {logs}")
        time.sleep(POLL_SEC)


def sample_documents(stack: Stack) -> list[dict[str, Any]]:
    """Create the sample datasets and return the requests that process them."""
    environment, log = stack.environment, stack.layout.log / "samples.log"
    argv = [
        *(sys.executable, "-m", "lab.seed", "--url", environment["WMS2_LAB_CMS_URL"]),
        *("--storage-prefix", environment["WMS2_LAB_STORAGE_PREFIX"]),
        *("--suffix", time.strftime("%m%d%H%M%S")),  # a stack may run several demonstrations
    ]
    with log.open("ab") as errors:
        done = subprocess.run(
            argv, env=environment, cwd=stack.layout.app, stdout=subprocess.PIPE, stderr=errors, check=False
        )
    if done.returncode:
        raise LabError(f"the sample data could not be created (exit code {done.returncode}), see {log}")
    return list(json.loads(done.stdout)["requests"])
