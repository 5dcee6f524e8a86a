"""Replacement of `outputs_app.inspect_child`: counts one file and is then killed by the signal in LANG."""

from __future__ import annotations

import json
import os
import signal
import sys

if __name__ == "__main__":
    sys.stdin.read()
    sys.stdout.write(json.dumps({"events": 7, "trees": {"Events": 7}, "lumi_events": None}) + "\n")
    sys.stdout.flush()
    os.kill(os.getpid(), getattr(signal, os.environ["LANG"]))
