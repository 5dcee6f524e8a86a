"""Entry point of `wms2`: prints an error as one sentence and exits with its code."""

from __future__ import annotations

import os
import sys

from wms2_cli.errors import CliError
from wms2_cli.quick import global_first, run_quickly

INTERRUPTED = 130
COMPLETION = "_WMS2_COMPLETE"  # set by the shell's completion


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        words = global_first(sys.argv[1:])
        if COMPLETION in os.environ or not run_quickly(words):
            from wms2_cli.commands import build_app  # Typer is slow to import

            asks = not words or "--help" in words or COMPLETION in os.environ
            build_app(words, everything=asks)(words, prog_name="wms2")
    except CliError as error:
        sys.stderr.write(f"wms2: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of the pipe, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
