"""The account that WMS2's jobs belong to."""

from __future__ import annotations

from condor.bounded import BindingsError, BoundedCalls
from wms2_project.errors import ScheddUnreachable


def find_job_owner(schedd: str, *, timeout_sec: float) -> str:
    """Return the account that the schedd, '' for the pool's own, maps WMS2 to. Raises ScheddUnreachable."""
    calls = BoundedCalls()
    try:
        return str(calls.call("identify", timeout_sec=timeout_sec, schedd=schedd)).partition("@")[0]
    except BindingsError as error:
        raise ScheddUnreachable(
            f"identify: {error}", cure="Check that the schedd runs and that CONDOR_CONFIG names its pool"
        ) from error
    finally:
        calls.close()
