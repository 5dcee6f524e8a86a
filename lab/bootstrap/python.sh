# A Python the stack's owner can run, and the virtual environment with exactly the pinned packages. Sourced by wms2.

find_python() {
  try_pythons && return
  if [ "$ME" = 0 ] && [ -z "$SEEN${WMS2_PYTHON:-}" ] && type -P apt-get >/dev/null; then
    say "installing python3"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3; } \
      >>"$WMS2_CACHE/log/install-python.log" 2>&1 </dev/null && try_pythons && return
  fi
  die "WMS2 needs Python 3.11, 3.12 or 3.13 that user $OWNER can run, found${SEEN:- none}${WMS2_PYTHON:+ in WMS2_PYTHON=$WMS2_PYTHON}: install one or name it with WMS2_PYTHON"
}

try_pythons() { # root's pyenv below a closed home is none: each candidate is tried as the owner
  local candidate version
  SEEN=""
  for candidate in ${WMS2_PYTHON:-$(type -ap python3 python3.13 python3.12 python3.11) /usr/bin/python3 /usr/local/bin/python3}; do
    [ -x "$candidate" ] || continue
    read -r PYTHON_MINOR PYTHON < <(as_owner "$candidate" -I -c '
import ctypes, os, ssl, sys, venv
assert (3, 11) <= sys.version_info < (3, 14)
print(sys.version_info.minor, os.path.realpath(sys._base_executable))' 2>/dev/null) && return
    version=$(as_owner "$candidate" -V 2>/dev/null | sed 's/Python / /')
    [[ $SEEN == *"$version"* ]] || SEEN+=$version
  done
  return 1
}

make_venv() {
  VENV=$WMS2_CACHE/venv-$({ "$PYTHON" -VV; echo "$PYTHON"; cat "$HERE"/requirements{,-lab}.txt; } | sha256sum | cut -c1-12)
  [ -f "$VENV/.complete" ] && return
  check_room "$WMS2_CACHE" "$ROOM_FIRST_MB" WMS2_CACHE
  exec 8>"$WMS2_CACHE/venv.lock"; flock 8            # two stacks may start at once
  if [ ! -f "$VENV/.complete" ]; then
    say "installing the Python packages into $VENV"
    rm -rf "$VENV"
    "$PYTHON" -m venv --without-pip "$VENV" || die "$PYTHON cannot make a virtual environment: install the package python3-venv"
    install_packages "$HERE/requirements.txt"
    install_packages "$HERE/requirements-lab.txt"
    touch "$VENV/.complete"
  fi
  exec 8>&-
}

add_dev_packages() { # what tests and benchmarks need, on top, never changing what is pinned below
  local done_mark; done_mark=$VENV/.dev-$(sha256sum < "$HERE/requirements-dev.txt" | cut -c1-12)
  [ -f "$done_mark" ] && return
  check_room "$WMS2_CACHE" "$ROOM_FIRST_MB" WMS2_CACHE
  exec 8>"$WMS2_CACHE/venv.lock"; flock 8
  if [ ! -f "$done_mark" ]; then
    say "installing the packages for tests"
    install_packages "$HERE/requirements-dev.txt"
    touch "$done_mark"
  fi
  exec 8>&-
}

make_peer_venv() { # $1 = a name, $2 = requirements, $3 = what it is for, $4… = options of the installer; sets PEER
  # Software that is compared with or tested against, in a venv of its own. Where it cannot be had, those who need it say so.
  local VENV; VENV=$WMS2_CACHE/$1-$({ "$PYTHON" -VV; echo "$PYTHON"; cat "$2"; } | sha256sum | cut -c1-12)
  PEER=$VENV
  [ -f "$VENV/.complete" ] && return
  exec 8>"$WMS2_CACHE/venv.lock"; flock 8
  if [ ! -f "$VENV/.complete" ]; then
    say "installing $3 into $VENV"
    rm -rf "$VENV"
    # a subshell: the others do not need it
    ("$PYTHON" -m venv --without-pip "$VENV" && install_packages "$2" "${@:4}" && touch "$VENV/.complete") || rm -rf "$VENV"
  fi
  exec 8>&-
}

make_rucio_venv() {
  make_peer_venv rucio "$HERE/tests/contract/rucio_server/requirements.txt" "a Rucio server for the contract tests"
  export WMS2_RUCIO_VENV=$PEER
}

make_wmcore_venv() { # its splitters need next to none of its dependencies, some of which do not build everywhere
  make_peer_venv wmcore "$HERE/benchmarks/requirements-wmcore.txt" "WMCore for benchmark B2" --no-deps
  export WMS2_WMCORE_PYTHON=$PEER/bin/python
}

install_packages() { # $1 = a requirements file with hashes, $2… = options; compiled to bytecode, because its owner may not run it
  local log=$WMS2_CACHE/log/install-python.log
  local wheel; wheel=$(pip_wheel) || exit 1
  local pip=("$VENV/bin/python" "$wheel/pip") quiet=(--no-input --disable-pip-version-check --require-virtualenv --require-hashes)
  {
    date
    [ "${WMS2_INSTALLER:-uv}" = uv ] && have_uv && uv_install "$@" \
      || "${pip[@]}" install "${quiet[@]}" "${@:2}" -r "$1"
  } >>"$log" 2>&1 \
    || die "the Python packages could not be installed, see $log: check that this machine reaches its package index (network, proxy, pip.conf) and run the command again"
}

have_uv() { [ -x "$WMS2_CACHE/uv/bin/uv" ] || "${pip[@]}" install "${quiet[@]}" --no-compile --target "$WMS2_CACHE/uv" -r "$HERE/lab/bootstrap/uv.txt"; }

uv_install() ( # uv reads neither pip.conf nor PIP_*: hand the machine's settings over
  config=$("${pip[@]}" config list 2>/dev/null || true)
  setting() { sed -n "s/^[^ ]*\.$1='\(.*\)'\$/\1/p" <<<"$config" | tail -1; }
  value=$(setting index-url);       [ -z "$value" ] || export UV_DEFAULT_INDEX=$value
  value=$(setting extra-index-url); [ -z "$value" ] || export UV_INDEX=$value UV_INDEX_STRATEGY=unsafe-best-match
  value=$(setting find-links);      [ -z "$value" ] || export UV_FIND_LINKS=${value// /,}
  value=$(setting cert);            [ -z "$value" ] || export SSL_CERT_FILE=${SSL_CERT_FILE:-$value}
  export UV_CACHE_DIR=$WMS2_CACHE/uv-cache UV_LINK_MODE=hardlink UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never
  "$WMS2_CACHE/uv/bin/uv" pip install --quiet --require-hashes --compile-bytecode --python "$VENV/bin/python" "${@:2}" -r "$1"
  code=$?
  rm -rf "$UV_CACHE_DIR"
  [ $code = 0 ] || echo "uv failed, trying pip"
  return $code
)

pip_wheel() { # pip without ensurepip: Debian splits that off into python3-venv, which needs root; the wheel does not
  local wheel dir bundled
  bundled=$("$PYTHON" -I -c 'import ensurepip, os; print(os.path.dirname(ensurepip.__file__))' 2>/dev/null || true)
  for wheel in "$bundled"/_bundled/pip-*.whl /usr/share/python-wheels/pip-*.whl "$WMS2_CACHE"/pip/usr/share/python-wheels/pip-*.whl; do
    [ -f "$wheel" ] && { echo "$wheel"; return; }
  done
  dir=$(mktemp -d "$WMS2_CACHE/apt.XXXXXX"); mkdir -p "$dir"/lists/partial "$dir"/cache/archives/partial
  (
    cd "$dir"
    apt=(apt-get -qq -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User= -o Acquire::Languages=none)
    "${apt[@]}" update && "${apt[@]}" download python3-pip-whl && dpkg-deb -x python3-pip-whl_*.deb "$WMS2_CACHE/pip"
  ) >>"$WMS2_CACHE/log/install-python.log" 2>&1 || { rm -rf "$dir"; die "this machine has no pip and apt cannot fetch it, see $WMS2_CACHE/log/install-python.log: install python3-pip or python3-venv"; }
  rm -rf "$dir"; ls "$WMS2_CACHE"/pip/usr/share/python-wheels/pip-*.whl
}
