#!/bin/sh
# A tool of cmssw-wm-tools: it changes a pickled configuration. Its name tells which.
case "${STANDIN_FAIL:-} $0" in "tweak "*edm_pset_tweak.py) exit 1 ;; esac
exec standin-python -m standin.tools "${0##*/}" "$@"
