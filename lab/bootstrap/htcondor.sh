# HTCondor: from outside (CONDOR_CONFIG), from PATH, or installed privately. Sourced by wms2.

check_system() { # before anything is downloaded
  [ "$(uname -s)" = Linux ] || die "WMS2 runs on Linux, this is $(uname -s): use a Linux machine or container"
  case $(uname -m) in x86_64|aarch64) ;; *) die "no PostgreSQL, Redis and HTCondor packages for architecture $(uname -m): use x86_64 or aarch64";; esac
  [ -z "${CONDOR_CONFIG:-}" ] && [ ! -f "$WMS2_CACHE/htcondor/.complete" ] || return 0
  type -P condor_submit_dag >/dev/null || { type -P apt-get && type -P dpkg-deb; } >/dev/null \
    || die "this system has neither HTCondor nor apt to fetch it with: install HTCondor, or set CONDOR_CONFIG to a pool's configuration"
}

start_htcondor_install() { # takes its time, so it runs beside the virtual environment's making
  HTCONDOR_ANSWER=$(mktemp)
  HTCONDOR_INSTALL=
  [ -z "${CONDOR_CONFIG:-}" ] || return 0
  [ -f "$WMS2_CACHE/htcondor/.complete" ] || check_room "$WMS2_CACHE" "$ROOM_FIRST_MB" WMS2_CACHE
  # a session of its own, so that all of it can be ended when something else goes wrong meanwhile
  HTCONDOR_PREFIX=$WMS2_CACHE/htcondor setsid "$HERE/lab/pool/install-htcondor.sh" \
    >"$HTCONDOR_ANSWER" 2>"$WMS2_CACHE/log/install-htcondor.log" </dev/null &
  HTCONDOR_INSTALL=$!
  trap 'kill -- "-$HTCONDOR_INSTALL" 2>/dev/null || true' EXIT
}

await_htcondor() {
  local log=$WMS2_CACHE/log/install-htcondor.log
  if [ -n "$HTCONDOR_INSTALL" ] && ! wait "$HTCONDOR_INSTALL"; then
    die "HTCondor could not be installed, see $log: $(sed -n 's/^.*ERROR: //p' "$log" | tail -1)"
  fi
  trap - EXIT
  HTCONDOR_HOME=$(cat "$HTCONDOR_ANSWER"); rm -f "$HTCONDOR_ANSWER"
  export HTCONDOR_HOME
}
