"""Rucio's REST server: authentication, and routes to names, replicas, rules, storages and subscriptions."""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3

from lab.cms_world import rucio_bad, rucio_dids, rucio_rses, rucio_rules, rucio_subscriptions
from lab.cms_world.known import Credentials
from lab.cms_world.messages import BYTES, HTML, Call, Reply, json_reply, stream_reply
from lab.cms_world.rucio_errors import SCOPE, no_such, refusal

VERSION = "41.5.1"
TOKEN_LIFETIME_SEC = 3600
CREATED = Reply(201, b"Created", HTML)
DONE = Reply(200, b"", HTML)


def handle(call: Call, db: sqlite3.Connection, credentials: Credentials) -> Reply:
    """Serve /rucio/…"""
    if call.method == "GET" and call.parts == ("ping",):
        return json_reply({"version": VERSION})
    if call.parts[:1] == ("auth",):
        return _authenticate(call, db, credentials)
    account = _account(call, db)
    rucio_rules.settle(db, call.now)
    match call.parts[:1]:
        case ("dids",):
            return _dids(call, db, account)
        case ("replicas",):
            return _replicas(call, db, account)
        case ("rules",):
            return _rules(call, db, account)
        case ("rses",):
            return rucio_rses.handle(call, db)
        case ("subscriptions",):
            return _subscriptions(call, db)
        case _:
            raise no_such(call)


def _authenticate(call: Call, db: sqlite3.Connection, credentials: Credentials) -> Reply:
    given = [call.headers.get(f"X-Rucio-{key}", "") for key in ("Account", "Username", "Password")]
    known = [credentials.account, credentials.username, credentials.password]
    is_known = hmac.compare_digest("\n".join(given).encode(), "\n".join(known).encode())
    if call.parts != ("auth", "userpass") or not is_known:
        message = f"Cannot authenticate to account {given[0]} with given credentials"
        raise refusal(401, "CannotAuthenticate", message)
    token, expires_at = secrets.token_hex(16), call.now + TOKEN_LIFETIME_SEC
    db.execute("DELETE FROM rucio_tokens WHERE expires_at < ?", (call.now,))
    db.execute("INSERT INTO rucio_tokens VALUES (?, ?, ?)", (token, credentials.account, expires_at))
    expires = rucio_rses.http_date(expires_at)
    return Reply(200, b"", BYTES, {"X-Rucio-Auth-Token": token, "X-Rucio-Auth-Token-Expires": expires})


def _account(call: Call, db: sqlite3.Connection) -> str:
    token = call.headers.get("X-Rucio-Auth-Token", "")
    row = db.execute(
        "SELECT account FROM rucio_tokens WHERE token = ? AND expires_at > ?", (token, call.now)
    ).fetchone()
    if row is None:
        raise refusal(401, "CannotAuthenticate", "Cannot authenticate with given credentials")
    return str(row["account"])


def _dids(call: Call, db: sqlite3.Connection, account: str) -> Reply:
    if len(call.parts) < 3 or call.parts[1] != SCOPE:
        raise refusal(404, "ScopeNotFound", f"no scope in {call.target}")
    name, below = call.parts[2], call.parts[3:]
    match call.method, below:
        case "GET", ("search",) if name == "dids":
            return stream_reply(rucio_dids.search(db, call.argument("filters"), call.argument("type")))
        case "POST", ():
            rucio_dids.add(db, name, call.document(), account=account, now=call.now)
            return CREATED
        case "GET", ():
            return json_reply(rucio_dids.describe(db, name))
        case "POST", ("dids",):
            rucio_dids.attach(db, name, call.document(), account=account, now=call.now)
            return CREATED
        case "GET", ("dids",):
            return stream_reply(rucio_dids.content(db, name))
        case "GET", ("files",):
            return stream_reply(rucio_dids.files(db, name))
        case "PUT", ("status",):
            rucio_dids.close(db, name, call.document(), now=call.now)
            return DONE
        case "GET", ("rules",):
            return stream_reply(rucio_rules.of_name(db, name))
        case _:
            raise no_such(call)


def _replicas(call: Call, db: sqlite3.Connection, account: str) -> Reply:
    match call.method, call.parts:
        case "POST", ("replicas",) | ("replicas", ""):
            document = call.document()
            rucio_dids.add_replicas(db, document["rse"], document["files"], account=account, now=call.now)
            return CREATED
        case "POST", ("replicas", "list"):
            return stream_reply(rucio_dids.list_replicas(db, call.document()))
        case "POST", ("replicas", "bad"):
            return json_reply(rucio_bad.declare_bad(db, call.document(), account=account, now=call.now), 201)
        case "POST", ("replicas", "suspicious"):
            refused = rucio_bad.declare_suspicious(db, call.document(), account=account, now=call.now)
            return json_reply(refused, 201)
        case "GET", ("replicas", "suspicious"):
            return json_reply(list(rucio_bad.suspicious(db, call.argument("rse_expression", "*"))))
        case _:
            raise no_such(call)


def _rules(call: Call, db: sqlite3.Connection, account: str) -> Reply:
    match call.method, call.parts:
        case "POST", ("rules",) | ("rules", ""):
            rule_id = rucio_rules.add(db, call.document(), account=account, now=call.now, stuck=call.stuck)
            return Reply(201, json.dumps([rule_id]).encode(), HTML)
        case "GET", ("rules", rule_id):
            return json_reply(rucio_rules.describe(db, rucio_rules.find(db, rule_id)))
        case "PUT", ("rules", rule_id):
            rucio_rules.update(db, rule_id, call.document()["options"], now=call.now)
            return DONE
        case "DELETE", ("rules", rule_id):
            rucio_rules.delete(db, rule_id, now=call.now)
            return DONE
        case _:
            raise no_such(call)


def _subscriptions(call: Call, db: sqlite3.Connection) -> Reply:
    match call.method, call.parts[1:]:
        case "POST", (account, name):
            options = call.document()["options"]
            new_id = rucio_subscriptions.add(db, account=account, name=name, options=options, now=call.now)
            return Reply(201, new_id.encode(), HTML)
        case "GET", () | ("",):
            return stream_reply(rucio_subscriptions.listed(db))
        case "GET", (account,):
            return stream_reply(rucio_subscriptions.listed(db, account=account))
        case _:
            raise no_such(call)
