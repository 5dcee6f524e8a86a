"""Runs inside the server's environment: schema, root account, and the topology the contract asks for."""

from __future__ import annotations

import sys

from rucio.common.types import InternalAccount, InternalScope
from rucio.core import account_limit, distance, rse, scope
from rucio.core.rse import get_rse_id
from rucio.db.sqla.constants import RSEType
from rucio.db.sqla.session import get_session
from rucio.db.sqla.util import build_database, create_base_vo, create_root_account

STORAGES = {
    "T1_US_FNAL_Disk": ("DISK", "1", "US"),
    "T1_US_FNAL_Tape": ("TAPE", "1", "US"),
    "T2_CH_CERN": ("DISK", "2", "CH"),
    "T2_DE_DESY": ("DISK", "2", "DE"),
}
WAN = ("read", "write", "delete", "third_party_copy_read", "third_party_copy_write")


def main() -> None:
    build_database()
    create_base_vo()
    create_root_account()
    root = InternalAccount("root")
    session = get_session()()
    scope.add_scope(InternalScope("cms"), root, session=session)
    for name, (kind, tier, country) in STORAGES.items():
        rse_id = rse.add_rse(name, deterministic=True, rse_type=RSEType[kind], session=session)
        for key, value in {"rse_type": kind, "tier": tier, "country": country}.items():
            rse.add_rse_attribute(rse_id, key, value, session=session)
        rse.add_protocol(rse_id, _protocol(name), session=session)
        account_limit.set_local_account_limit(root, rse_id, 10**16, session=session)
    for source in STORAGES:
        for target in STORAGES:
            if source != target:
                ends = (get_rse_id(source, session=session), get_rse_id(target, session=session))
                distance.add_distance(*ends, distance=1, session=session)
    session.commit()
    sys.stdout.write("ready\n")


def _protocol(name: str) -> dict[str, object]:
    return {
        "scheme": "mock",
        "hostname": f"{name.lower().replace('_', '-')}.invalid",
        "port": 42,
        "prefix": "/",
        "impl": "rucio.rse.protocols.mock.Default",
        "domains": {
            "lan": {"read": 1, "write": 1, "delete": 1},
            "wan": dict.fromkeys(WAN, 1),
        },
    }


if __name__ == "__main__":
    main()
