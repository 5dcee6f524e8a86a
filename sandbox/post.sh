#!/bin/sh
# SCRIPT POST of a group's nodes; runs in the group directory.
# -S and -E: no site packages, no PYTHON* variables: start quickly and the same everywhere.
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
exec "${WMS2_PYTHON:-python3}" -S -E "${0%/*}/sandbox/post_script.py" "$@"
