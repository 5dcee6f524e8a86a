"""`python -m lab.cms_world --port N --state DIR` serves the simulated services until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from pathlib import Path

from lab.cms_world.known import credentials_from_environment
from lab.cms_world.server import World
from lab.grid.description import Grid


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.cms_world", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="loopback port; 0 takes a free one")
    parser.add_argument("--state", type=Path, required=True, help="directory of the database")
    parser.add_argument("--grid", type=Path, help="description of the grid whose servers Rucio names")
    parser.add_argument("--verbose", action="store_true", help="log every call")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    world = World(
        arguments.state,
        port=arguments.port,
        credentials=credentials_from_environment(),
        grid=Grid.load(arguments.grid) if arguments.grid else None,
    )
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: threading.Thread(target=world.stop).start())
    print(f"cms_world ready at {world.url}", flush=True)
    world.serve()


if __name__ == "__main__":
    main()
