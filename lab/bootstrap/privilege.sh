# Root mode is user mode after one privilege drop. Sourced by wms2.
# As root nothing of ours runs as root: the stack belongs to the system user "wms2", who may be unable to read
# this checkout, so the source is copied and the virtual environment built where that user can read.
ME=$(id -u)
OWNER=wms2; [ "$ME" = 0 ] || OWNER=$(id -un 2>/dev/null || echo "$ME")
DROP=()
export WMS2_PERSON=${SUDO_USER:-$(id -un 2>/dev/null || echo "$ME")}   # what they do inside the stack is recorded as done by them

as_owner() { "${DROP[@]}" "$@"; }

make_drop() {
  [ "$ME" = 0 ] || return 0
  getent passwd "$OWNER" >/dev/null \
    || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$OWNER" \
    || die "cannot create the system user $OWNER: install the package passwd, or run as an ordinary user"
  command -v setpriv >/dev/null || die "setpriv is missing: install the package util-linux, or run as an ordinary user"
  local name keep=()                                 # a whitelist: root's HOME, TMPDIR, XDG_*, PYTHON* must not leak
  for name in $(compgen -e); do
    case $name in
      PATH|TERM|COLUMNS|LINES|LANG|TZ|CI|NO_COLOR|FORCE_COLOR|*_proxy|*_PROXY|SSL_CERT_*|*_CA_BUNDLE) ;;
      WMS2_*|DATABASE_URL|REDIS_URL|CONDOR_CONFIG|_CONDOR_*|HTCONDOR_HOME) ;;
      *) continue;;
    esac
    keep+=("$name=${!name}")
  done
  DROP=(setpriv "--reuid=$OWNER" "--regid=$OWNER" --init-groups -- env -i "${keep[@]}" "HOME=$WMS2_HOME/home" "USER=$OWNER" "LOGNAME=$OWNER")
}
