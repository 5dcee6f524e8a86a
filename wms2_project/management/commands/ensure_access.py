"""`manage.py ensure_access`: create or update the first administrator and their API token from files."""

from __future__ import annotations

import stat
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from wms2_project.access.tokens import PREFIX, digest_of, issue_token
from wms2_project.models import ApiToken

OWN_NAME = "ensure_access"


class Command(BaseCommand):
    help = "Create or update the administrator and their API token from the given files. May be repeated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take secrets from files, because command lines are visible to all users of the machine."""
        parser.add_argument("--username", required=True)
        parser.add_argument("--password-file", required=True, type=Path)
        parser.add_argument("--token-file", required=True, type=Path, help=f"holds {PREFIX}…")

    def handle(self, *args: Any, **options: Any) -> None:
        password = _secret(options["password_file"])
        token = _secret(options["token_file"])
        if not token.startswith(PREFIX) or len(token) < len(PREFIX) + 20:
            raise CommandError(
                f"{options['token_file']} must contain {PREFIX} and at least 20 more characters."
            )
        with transaction.atomic():
            user, created = User.objects.get_or_create(username=options["username"])
            changed = _ensure_user(user, password) or created
            changed = _ensure_token(user, token) or changed
        self.stdout.write(f"{user.username}: {'access is set' if changed else 'nothing to change'}")


def _ensure_user(user: User, password: str) -> bool:
    """Make the user an active superuser with this password. Sessions survive if nothing changes."""
    complete = user.is_active and user.is_staff and user.is_superuser
    if complete and user.check_password(password):
        return False
    user.is_active = user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    return True


def _ensure_token(user: User, token: str) -> bool:
    digest = digest_of(token)
    if ApiToken.objects.filter(user=user, digest=digest, revoked_at=None, expires_at=None).exists():
        return False
    if ApiToken.objects.filter(digest=digest).exclude(user=user, name=OWN_NAME).exists():
        raise CommandError("This token is in use under another name. Put a new one into the token file.")
    issue_token(
        user=user,
        name=OWN_NAME,
        clear_text=token,
        actor="system:ensure_access",
        reason="from the token file",
    )
    return True


def _secret(path: Path) -> str:
    """Return the text of a file that only its owner may read."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CommandError(f"{path} can be read by other users. Run: chmod 600 {path}")
    if not text:
        raise CommandError(f"{path} is empty. Write the secret into it.")
    return text
