"""Operations on templates, chains and announcements, and the list of all operations."""

from chains_app.operations.chains import ANNOUNCEMENT_OPERATIONS, CHAIN_OPERATIONS
from chains_app.operations.templates import TEMPLATE_OPERATIONS
from requests_app.operations import ALL_OPERATIONS as REQUEST_SIDE

ALL_OPERATIONS = (*REQUEST_SIDE, *TEMPLATE_OPERATIONS, *CHAIN_OPERATIONS, *ANNOUNCEMENT_OPERATIONS)

__all__ = ["ALL_OPERATIONS", "ANNOUNCEMENT_OPERATIONS", "CHAIN_OPERATIONS", "TEMPLATE_OPERATIONS"]
