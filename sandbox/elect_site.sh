#!/bin/sh
# SCRIPT POST of a group's landing node; runs in the group directory.
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
exec "${WMS2_PYTHON:-python3}" -S -E "${0%/*}/sandbox/elect_site.py" "$@"
