"""Operations on requests, DAGs, admission, quotas and alerts, and the list of all operations."""

from dags_app.operations import DAG_OPERATIONS, QUARANTINE_OPERATIONS, SCHEDD_OPERATIONS
from requests_app.operations.admission import ADMISSION_OPERATIONS, ALERT_OPERATIONS, QUOTA_OPERATIONS
from requests_app.operations.requests import BY_NAME, REQUEST_OPERATIONS, RESCUE_DAG
from sites_app.operations import OPERATIONS as SITE_OPERATIONS
from wms2_project.access.identity_operations import IDENTITY_OPERATIONS
from wms2_project.access.operations import TOKEN_OPERATIONS

ALL_OPERATIONS = (
    *REQUEST_OPERATIONS,
    *DAG_OPERATIONS,
    RESCUE_DAG,
    *SITE_OPERATIONS,
    *SCHEDD_OPERATIONS,
    *QUARANTINE_OPERATIONS,
    *ADMISSION_OPERATIONS,
    *QUOTA_OPERATIONS,
    *ALERT_OPERATIONS,
    *TOKEN_OPERATIONS,
    *IDENTITY_OPERATIONS,
)

__all__ = [
    "ADMISSION_OPERATIONS",
    "ALERT_OPERATIONS",
    "ALL_OPERATIONS",
    "BY_NAME",
    "QUOTA_OPERATIONS",
    "REQUEST_OPERATIONS",
    "RESCUE_DAG",
]
