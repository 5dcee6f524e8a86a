#!/bin/sh
# A tool of cmssw-wm-tools: it changes a pickled configuration. Its name tells which.
[ "${STANDIN_FAIL:-}" != tweak ] || exit 1
exec standin-python -m standin.tools "${0##*/}" "$@"
