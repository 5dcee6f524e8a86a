# HTCondor, Redis and XRootD: from outside, from PATH, or installed privately. Sourced by wms2.
declare -A INSTALLING=()
CONDOR_PROGRAMS="condor_master condor_schedd condor_startd condor_starter condor_collector condor_negotiator condor_shadow
  condor_procd condor_submit condor_dagman condor_q condor_history condor_version"
XROOTD_PACKAGES="xrootd-server xrootd-client xrootd-plugins xrootd-server-plugins xrootd-client-plugins xrootd-scitokens-plugins libreadline8t64"
XROOTD_PROGRAMS="xrootd xrdcp xrdfs libXrdHttp-5.so libXrdHttpTPC-5.so libXrdAccSciTokens-5.so libXrdSecztn-5.so libXrdThrottle-5.so"
RABBITMQ_PACKAGES="rabbitmq-server erlang-base erlang-asn1 erlang-crypto erlang-eldap erlang-inets erlang-mnesia erlang-os-mon
  erlang-parsetools erlang-public-key erlang-runtime-tools erlang-snmp erlang-ssl erlang-syntax-tools erlang-tools erlang-xmerl"
RABBITMQ_PROGRAMS="beam.smp epmd erlexec crypto.so"

check_system() { # before anything is downloaded
  [ "$(uname -s)" = Linux ] || die "WMS2 runs on Linux, this is $(uname -s): use a Linux machine or container"
  case $(uname -m) in x86_64|aarch64) ;; *) die "there are no servers for architecture $(uname -m): use x86_64 or aarch64";; esac
  ! { type -P apt-get && type -P dpkg-deb; } >/dev/null || return 0
  [ -n "${CONDOR_CONFIG:-}" ] || [ -f "$WMS2_CACHE/htcondor/.complete" ] || condor_on_path >/dev/null \
    || die "this system has neither HTCondor nor apt to fetch it with: install HTCondor, or set CONDOR_CONFIG to a pool's configuration"
  [ -n "${WMS2_XROOTD_HOME:-}" ] || [ -f "$WMS2_CACHE/xrootd/.complete" ] \
    || die "this system has neither XRootD nor apt to fetch it with: set WMS2_XROOTD_HOME to a directory with bin/xrootd, version 5.8 or newer"
}

condor_on_path() { # prints the directory that holds bin/ and sbin/
  local tool; tool=$(find_program condor_submit_dag) && find_program condor_master >/dev/null || return
  dirname "$(dirname "$(readlink -f "$tool")")"
}

find_program() { as_owner env "PATH=$PATH:/usr/sbin:/usr/local/sbin" sh -c 'command -v "$1"' - "$1"; } # one the owner can run

start_servers() { # installing takes its time, so it runs beside the virtual environment's making
  if [ -z "${CONDOR_CONFIG:-}" ] && { [ -f "$WMS2_CACHE/htcondor/.complete" ] || ! HTCONDOR_HOME=$(condor_on_path); }; then
    HTCONDOR_HOME=$WMS2_CACHE/htcondor/usr
    start_install htcondor condor "$CONDOR_PROGRAMS"
  fi
  # no wheel brings Redis to Python 3.13
  if [ -z "${REDIS_URL:-}${WMS2_REDIS_SERVER:-}" ] && ! find_program redis-server >/dev/null && [ "$PYTHON_MINOR" -ge 13 ]; then
    WMS2_REDIS_SERVER=$WMS2_CACHE/redis/usr/bin/redis-server
    start_install redis "redis-server redis-tools" redis-server
  fi
  if [ -z "${WMS2_XROOTD_HOME:-}" ]; then
    WMS2_XROOTD_HOME=$WMS2_CACHE/xrootd/usr
    start_install xrootd "$XROOTD_PACKAGES" "$XROOTD_PROGRAMS"
  fi
}

find_broker() { # $1 = install: only tests and benchmarks fetch it, the stack uses it where it is
  [ -z "${WMS2_RABBITMQ_HOME:-}" ] || return 0
  if [ "${1:-}" = install ] && type -P apt-get >/dev/null; then
    start_install rabbitmq "${RABBITMQ_PACKAGES//$'\n'/ }" "$RABBITMQ_PROGRAMS"
  fi
  WMS2_RABBITMQ_HOME=$WMS2_CACHE/rabbitmq
}

start_install() { # $1 = short name, $2 = Debian packages, $3 = programs that must work afterwards
  [ ! -f "$WMS2_CACHE/$1/.complete" ] || return 0
  check_room "$WMS2_CACHE" "$ROOM_FIRST_MB" WMS2_CACHE
  # a session of its own, so that all of it can be ended when something else goes wrong meanwhile
  setsid "$HERE/lab/pool/install-private.sh" "$WMS2_CACHE/$1" "$2" "$3" >"$WMS2_CACHE/log/install-$1.log" 2>&1 </dev/null &
  INSTALLING[$1]=$!
  trap 'for pid in "${INSTALLING[@]}"; do kill -- "-$pid" 2>/dev/null || true; done' EXIT
}

await_servers() {
  local name log
  for name in "${!INSTALLING[@]}"; do
    log=$WMS2_CACHE/log/install-$name.log
    wait "${INSTALLING[$name]}" || { [ "$name" = rabbitmq ] && say "RabbitMQ could not be installed, its tests are skipped: see $log" && continue; } \
      || die "$name could not be installed, see $log: $(sed -n 's/^.*ERROR: //p' "$log" | tail -1)"
  done
  trap - EXIT
  export HTCONDOR_HOME=${HTCONDOR_HOME:-} WMS2_REDIS_SERVER=${WMS2_REDIS_SERVER:-} WMS2_XROOTD_HOME=${WMS2_XROOTD_HOME:-}
  [ -f "${WMS2_RABBITMQ_HOME:-}/.complete" ] || WMS2_RABBITMQ_HOME=
  export WMS2_RABBITMQ_HOME
}
