"""CRIC's site query: the processing sites and their storages, as columns and rows."""

from __future__ import annotations

import sqlite3

from lab.cms_world.messages import Call, Refused, Reply, json_reply

COLUMNS = ("phedex_name", "psn_name")


def handle(call: Call, db: sqlite3.Connection) -> Reply:
    """Serve /cric/api/cms/site/query/"""
    if call.method != "GET" or call.parts[:4] != ("api", "cms", "site", "query"):
        raise Refused(json_reply({"error": f"no {call.method} {call.target}"}, 404))
    if "json" not in call.query or call.argument("preset") != "data-processing":
        raise Refused(json_reply({"error": "expected ?json&preset=data-processing"}, 400))
    hidden = "ABSENT" if call.argument("rcsite_state") == "ANY" else "ABSENT,DISABLED"
    rows = db.execute(
        "SELECT name, site FROM (SELECT name, site FROM rses WHERE kind = 'DISK'"
        " UNION SELECT r.rse, r.site FROM readers r) LEFT JOIN site_states USING (site)"
        " WHERE instr(?, coalesce(state, 'ACTIVE')) = 0 ORDER BY name, site",
        (hidden,),
    ).fetchall()
    return json_reply({"desc": {"columns": COLUMNS}, "result": [[row["name"], row["site"]] for row in rows]})
