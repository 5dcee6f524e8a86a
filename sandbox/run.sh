#!/bin/sh
# Starts the job wrapper on a worker node: run.sh <role> <node> <site>.
# Whatever fails before Python runs is still told in back/<node>.report.json.
set -u
mkdir -p back || exit 97
role=${1:-} node=${2:-} site=${3:-}
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH

give_up() { # <CMS exit code> <exit status> <words for people, without quotes>
    for value in "$role" "$node"; do
        case $value in '' | *[!A-Za-z0-9_]*) echo "run.sh: $3" >&2; exit "$2" ;; esac
    done
    case $site in *[!A-Za-z0-9_]*) site= ;; esac
    case ${WMS2_ATTEMPT:-0} in *[!0-9]*) attempt=0 ;; *) attempt=${WMS2_ATTEMPT:-0} ;; esac
    {
        printf '{"schema": 1, "node": "%s", "group": "", "role": "%s", "site": "%s", ' "$node" "$role" "$site"
        printf '"attempt": %d, "exit_code": %d, "source": "wrapper", "error": "%s", ' "$attempt" "$1" "$3"
        printf '"started_at": %d, "wall_time_sec": 0, "cpu_time_sec": 0, "peak_rss_mb": 0, ' "$(date +%s)"
        printf '"events_read": 0, "events_written": 0, "inputs": [], "outputs": [], "pilot": null}\n'
    } >"back/$node.report.json"
    echo "run.sh: $3" >&2
    exit "$2"
}

# The job's directory is on the import path only until everything is imported: payload code will write to it.
start='import sys; sys.path.insert(0, "."); from sandbox.wrapper import main; del sys.path[0]; sys.exit(main(sys.argv[1:]))'
tar -xzf sandbox.tar.gz || give_up 74 74 "sandbox.tar.gz cannot be unpacked"
for python in "${WMS2_PYTHON:-python3}" python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
    if "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        exec "$python" -I -B -c "$start" "$role" "$node" "$site"
    fi
done
give_up 11005 253 "no Python 3.9 or newer on this node"
