"""`manage.py access`: accounts of people and robots, their roles, tokens and certificates."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from wms2_project.access.identity_operations import LINK, UNLINK
from wms2_project.access.operations import ISSUE, REVOKE
from wms2_project.access.people import set_roles
from wms2_project.command_base import refusal, shell_actor
from wms2_project.errors import Wms2Error
from wms2_project.models import X509, ApiToken, Identity
from wms2_project.operations.command import run_operation


class Command(BaseCommand):
    help = "Manage access. A robot is an account with roles and a token or certificate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        roles = actions.add_parser("roles", help="set the roles of an account; an unknown account is created")
        roles.add_argument("user")
        roles.add_argument(
            "roles", nargs="*", help="viewer requestor site_admin:SITE operator admin member:GROUP"
        )
        token = actions.add_parser("token", help="create an API token and print it once")
        token.add_argument("user")
        token.add_argument("name")
        token.add_argument("--days", type=int, help="days until expiry; default: valid until revoked")
        revoke = actions.add_parser("revoke", help="revoke an API token")
        revoke.add_argument("user")
        revoke.add_argument("name")
        link = actions.add_parser("link", help="link an identity to an account")
        link.add_argument("user")
        link.add_argument("subject", help="DN of a certificate, or `sub` of an issuer's tokens")
        unlink = actions.add_parser("unlink", help="unlink an identity")
        unlink.add_argument("subject")
        for one in (link, unlink):
            one.add_argument("--issuer", default=X509, help="URL of the token issuer; default: a certificate")
        for one in (roles, token, revoke, link, unlink):
            one.add_argument("--reason", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            message = getattr(self, f"_{options['action']}")(
                options, {"actor": shell_actor(), "reason": options["reason"]}
            )
        except Wms2Error as error:
            raise refusal(error) from error
        self.stdout.write(message)

    def _roles(self, options: dict[str, Any], why: dict[str, str]) -> str:
        with transaction.atomic():  # an invalid role creates no account
            user, _ = User.objects.get_or_create(username=options["user"])
            set_roles(user=user, roles=options["roles"], **why)
        return f"{user}: {', '.join(options['roles']) or 'no roles'}"

    def _token(self, options: dict[str, Any], why: dict[str, str]) -> str:
        return run_operation(ISSUE, options=options)

    def _revoke(self, options: dict[str, Any], why: dict[str, str]) -> str:
        token = ApiToken.objects.filter(user=_user(options), name=options["name"]).first()
        if token is None:
            raise CommandError(f"{options['user']} has no token {options['name']}")
        return run_operation(REVOKE, token.pk, options=options)

    def _link(self, options: dict[str, Any], why: dict[str, str]) -> str:
        return run_operation(LINK, options=options)

    def _unlink(self, options: dict[str, Any], why: dict[str, str]) -> str:
        known = Identity.objects.filter(issuer=options["issuer"], subject=options["subject"]).first()
        if known is None:
            raise CommandError(f"no account is linked to {options['subject']}")
        return run_operation(UNLINK, known.pk, options=options)


def _user(options: dict[str, Any]) -> User:
    user = User.objects.filter(username=options["user"]).first()
    if user is None:
        raise CommandError(f"there is no account {options['user']}. Create it with: access roles")
    return user
