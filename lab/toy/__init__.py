"""The toy payload of the lab: a plugin with one payload kind, `toy`, and its merge tool, `events`.

Its files are text, its cost and its faults are configurable (`lab.toy.knobs`), and a retry writes the same
bytes, as most tests need. It travels in the sandbox tarball: standard library only, Python 3.9.
"""

from __future__ import annotations

from lab.toy import eventmerge, payload

KINDS = (payload.KIND,)
MERGE_TOOLS = (eventmerge.TOOL,)
