"""Grammar of names in Rucio: the generic rules refuse `#` in blocks and small letters in storages."""

from rucio.common.schema import generic
from rucio.common.schema.generic import *  # noqa: F403

_DATASET = r"/[a-zA-Z0-9\-_]{1,99}/[a-zA-Z0-9\.\-_]{1,199}/[A-Z0-9\-]{1,99}"
_LFN = r"/store/[A-Za-z0-9][A-Za-z0-9\.\-_/]{1,493}"
NAME_LENGTH = 500
NAME = {
    "description": "CMS name",
    "type": "string",
    "maxLength": NAME_LENGTH,
    "pattern": rf"^({_DATASET}|{_DATASET}#[a-zA-Z0-9\.\-_]{{1,100}}|{_LFN})$",
}
R_NAME = NAME
RSE = {"description": "RSE name", "type": "string", "pattern": r"^T[0-3]_[A-Z]{2}((_[A-Za-z0-9]+)+)$"}
ATTACHMENT = {
    **generic.ATTACHMENT,
    "properties": {
        **generic.ATTACHMENT["properties"],
        "rse": {"description": "RSE name", "type": ["string", "null"], "pattern": RSE["pattern"]},
    },
}
SCOPE_NAME_REGEXP = r"/([^/]*)/(.*)"  # names begin with a slash
SCHEMAS = {**generic.SCHEMAS, "name": NAME, "r_name": R_NAME, "rse": RSE, "attachment": ATTACHMENT}
