"""``python -m lab COMMAND …``: entry point of ``./wms2`` once Python and HTCondor are installed."""

from __future__ import annotations

import sys

from lab import commands
from lab.client import say, stop_on_signals
from lab.errors import LabError
from lab.paths import Layout
from lab.processes import default_signals


def main(arguments: list[str]) -> int:
    layout = Layout.from_environment()
    match arguments:
        case ["supervise"]:
            from lab.stack import supervise

            return supervise(layout)
        case ["up", *rest] if set(rest) <= {"-d", "--detach"}:
            return commands.up(layout, detach=bool(rest))
        case ["down"]:
            return commands.down(layout)
        case ["status"]:
            return commands.status(layout)
        case ["env"]:
            return commands.env(layout)
        case ["cli", *rest]:
            commands.cli(layout, rest)
        case ["manage", *rest]:
            commands.manage(layout, rest)
        case ["logs", *rest]:
            return commands.logs(layout, rest)
        case ["fault", *rest]:
            from lab.grid.command import fault

            return fault(layout, rest)
        case ["demo", *rest]:
            from lab.demo.run import demo

            return demo(layout, rest)
        case ["test", *rest]:
            from lab.testrun import run_tests

            return run_tests(layout, rest)
        case ["simulate", *rest]:
            from lab.testrun import run_simulation

            return run_simulation(layout, rest)
        case ["bench", *rest]:
            from lab.testrun import run_benchmarks

            return run_benchmarks(layout, rest)
    raise LabError(f"unknown command {' '.join(arguments)!r}: see ./wms2 help", exit_code=commands.EXIT_USAGE)


if __name__ == "__main__":
    default_signals()
    stop_on_signals()
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(commands.EXIT_INTERRUPTED)
    except BrokenPipeError:  # `./wms2 logs | head`
        sys.exit(0)
