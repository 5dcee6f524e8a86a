"""``python -m lab.manage '[["migrate", …], …]'``: run several manage.py commands in one process."""

from __future__ import annotations

import json
import sys

import django
from django.core.management import CommandError, call_command


def main(commands: list[list[str]]) -> None:
    django.setup()
    for name, *arguments in commands:
        print(f"manage.py {name}", flush=True)
        try:
            call_command(name, *arguments)
        except CommandError as error:
            sys.exit(f"manage.py {name}: {error}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
