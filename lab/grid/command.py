"""`./wms2 fault`: list, set and clear the faults of the sites' storage."""

from __future__ import annotations

from collections.abc import Callable

from lab.errors import LabError
from lab.grid.description import Grid, grid_file
from lab.grid.faults import DEFAULT_RATE_BYTES_PER_SEC, SiteFaults
from lab.paths import Layout

EXIT_USAGE = 2
HELP = f"""usage: ./wms2 fault [SITE FAULT]

without arguments: list the sites and their faults

  SITE down             refuse connections
  SITE hang             accept connections and never answer
  SITE slow [RATE]      limit all transfers together to RATE bytes/s (default {DEFAULT_RATE_BYTES_PER_SEC})
  SITE full             refuse new files for lack of space
  SITE deny             refuse every token
  SITE corrupt LFN      change bytes of a file, not its size
  SITE lose LFN         make a file disappear
  SITE clear            end all faults of the site and repair its files"""


def fault(layout: Layout, arguments: list[str]) -> int:
    if arguments in (["help"], ["-h"], ["--help"]):
        print(HELP)
        return 0
    path = grid_file(layout.data)
    if not path.exists():
        raise LabError(f"no grid has run in {layout.home}: run ./wms2 up first")
    grid = Grid.load(path)
    sites = {name: SiteFaults.of(layout, grid, name) for name in grid.sites}
    if arguments:
        find_action(sites, arguments)()
    for name, faults in sites.items():
        print(f"{name:<16} {', '.join(faults.active()) or 'no faults'}")
    return 0


def find_action(sites: dict[str, SiteFaults], arguments: list[str]) -> Callable[[], None]:
    """Parse the arguments; refuse unknown ones."""
    name, *rest = arguments
    if name not in sites:
        raise LabError(f"there is no site {name}: choose from {', '.join(sites)}", exit_code=EXIT_USAGE)
    site = sites[name]
    plain = {
        "down": site.down,
        "hang": site.hang,
        "slow": site.slow,
        "full": site.full,
        "deny": site.deny,
        "clear": site.clear,
    }
    match rest:
        case [what] if what in plain:
            return plain[what]
        case ["slow", rate] if rate.isdecimal() and int(rate) > 0:
            return lambda: site.slow(int(rate))
        case ["corrupt", lfn]:
            return lambda: site.corrupt(lfn)
        case ["lose", lfn]:
            return lambda: site.lose(lfn)
    raise LabError(f"unknown fault {' '.join(rest)!r}: see ./wms2 fault help", exit_code=EXIT_USAGE)
