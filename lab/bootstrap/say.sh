# Words for the person at the terminal. Sourced by wms2.
STARTED=${EPOCHREALTIME/,/.}
say() { printf '[wms2 %5.1fs] %s\n' "$(awk -v a="$STARTED" -v b="${EPOCHREALTIME/,/.}" 'BEGIN{print b-a}')" "$*" >&2; }
die() { say "error: $*"; exit 1; }
