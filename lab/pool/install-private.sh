#!/usr/bin/env bash
# install-private.sh PREFIX PACKAGES FILES - servers from Debian without touching the machine, without prompts.
#
# The packages and their shared libraries, libc included, are fetched by apt (signatures checked, apt's own state
# kept private, the system's package database untouched), unpacked below PREFIX, and every executable gets its
# loader and library path patched to that prefix. Needs no root and no chroot, sets no LD_LIBRARY_PATH, and so
# leaks nothing into what the servers start. Run again, it finds its work done.
#
# WMS2_DEBIAN_SUITE   the suite to take them from (default: trixie)
# WMS2_DEBIAN_MIRROR  a Debian mirror (default: the one this machine's apt uses)
set -euo pipefail
umask 022                                # whoever runs the servers must be able to read the prefix
PREFIX=$1
read -ra PACKAGES <<<"$2"
read -ra FILES <<<"${3//$'\n'/ }"         # programs and plugins that must be there and find their libraries
SUITE=${WMS2_DEBIAN_SUITE:-trixie}

log() { echo "[install-private] $*" >&2; }
die() { log "ERROR: $*"; exit 1; }
complete() { [ -f "$PREFIX/.complete" ]; }

find_mirror() {                          # apt itself knows: every source format, disabled entries left out, no root needed
  local all
  all=$(apt-get update --print-uris 2>/dev/null | sed -n "s#^'\(https\{0,1\}:.*\)/dists/.*#\1#p" || true)
  { grep '/debian$' <<<"$all" || grep -v security <<<"$all"; } | head -1 || true
}

install_as_root() { [ "$(id -u)" = 0 ] && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2; }

check_system() {
  local tool
  for tool in apt-get apt-cache dpkg dpkg-deb; do
    command -v "$tool" >/dev/null || die "$tool is missing, so ${PACKAGES[0]} cannot be fetched; install it by hand"
  done
  # apt checks signatures with one of them: gpgv up to Debian 12, sqv since Debian 13
  command -v gpgv >/dev/null || command -v sqv >/dev/null || install_as_root gpgv \
    || die "apt has neither gpgv nor sqv to check signatures with; install the package gpgv or sqv"
  case $(dpkg --print-architecture) in
    amd64) LOADER=ld-linux-x86-64.so.2 TRIPLET=x86_64-linux-gnu;;
    arm64) LOADER=ld-linux-aarch64.so.1 TRIPLET=aarch64-linux-gnu;;
    *) die "no ${PACKAGES[0]} for architecture $(dpkg --print-architecture); install it by hand";;
  esac
  KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -r "$KEYRING" ] || install_as_root debian-archive-keyring \
    || die "Debian's keys are missing; install the package debian-archive-keyring"
  MIRROR=${WMS2_DEBIAN_MIRROR:-$(find_mirror)}
  [ -n "$MIRROR" ] || die "apt on this machine names no Debian mirror; set WMS2_DEBIAN_MIRROR to one"
}

configure_apt() {                        # own lists, cache and status; the machine's proxy and credentials stay
  mkdir -p "$WORK"/apt/{etc,lists/partial,cache/archives/partial} "$WORK"/debs "$WORK"/root
  : > "$WORK/apt/status"
  echo "deb [signed-by=$KEYRING] $MIRROR $SUITE main" > "$WORK/apt/etc/sources.list"
  cat > "$WORK/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$WORK/apt/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$WORK/apt/lists";
Dir::State::status "$WORK/apt/status";
Dir::Cache "$WORK/apt/cache";
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
  export APT_CONFIG=$WORK/apt/apt.conf
}

fetch() {
  log "reading the package index of $SUITE"
  apt-get update -qq >&2 || die "the mirror of this machine's apt did not give the index of $SUITE: check the network, set WMS2_DEBIAN_MIRROR, or upgrade debian-archive-keyring"
  [ -n "$(ls "$WORK"/apt/lists/*InRelease 2>/dev/null)" ] || die "no signed index of $SUITE was obtained: check the network or set WMS2_DEBIAN_MIRROR"
  # the packages and the shared libraries among their dependencies: no perl, python, dpkg, passwd …
  apt-get install -s -o Debug::NoLocking=1 "${PACKAGES[@]}" 2>/dev/null | awk '$1=="Inst"{print $2}' | sort -u > "$WORK/closure"
  grep -E '^(zlib1g|lib.*)$' "$WORK/closure" \
    | grep -v -E '^lib(js-|python|perl|boost|.*-perl$|pam|semanage|sepol|debconf|audit-common|gdbm|db5|sasl2-modules|readline|ncurses|pcre2-(16|32|posix)|bsd|md0|attr|acl)' > "$WORK/packages"
  grep -qx "${PACKAGES[0]}" "$WORK/closure" || die "suite $SUITE has no package ${PACKAGES[0]}; choose another WMS2_DEBIAN_SUITE"
  printf '%s\n' "${PACKAGES[@]}" >> "$WORK/packages"
  echo patchelf >> "$WORK/packages"
  log "downloading $(wc -l < "$WORK/packages") packages"
  # shellcheck disable=SC2046 - one word per package
  (cd "$WORK/debs" && apt-get download -qq $(cat "$WORK/packages") >&2) || die "the packages could not be downloaded: check network and disk space"
  local deb
  for deb in "$WORK"/debs/*.deb; do dpkg-deb -x "$deb" "$ROOT"; done
}

gather_libraries() {                     # one flat private library directory; then only what servers need stays
  local file
  mkdir -p "$ROOT/lib-private"
  find "$ROOT/usr/lib/$TRIPLET" "$ROOT/lib/$TRIPLET" -maxdepth 1 \( -type f -o -type l \) -name '*.so*' \
    -exec cp -a {} "$ROOT/lib-private/" \; 2>/dev/null || true
  for file in "$ROOT"/{lib64,usr/lib64,usr/lib,"usr/lib/$TRIPLET"}/"$LOADER"; do
    [ -e "$file" ] && { cp -L "$file" "$ROOT/lib-private/$LOADER"; break; }
  done
  [ -x "$ROOT/lib-private/$LOADER" ] || die "the dynamic loader is missing from the packages of $SUITE"
  find "$ROOT" -mindepth 1 -maxdepth 1 ! -name usr ! -name etc ! -name lib-private -exec rm -rf {} +
  rm -rf "$ROOT"/usr/{share/doc,share/man,share/locale,share/lintian,lib/python3,lib64}
  for file in "$ROOT/usr/lib/$TRIPLET"/*; do
    case ${file##*/} in condor*|libcondor*|libclassad*|libpyclassad*) ;; *) rm -rf "$file";; esac
  done
}

patch_binaries() {
  local file path
  local patchelf=("$ROOT/lib-private/$LOADER" --library-path "$ROOT/lib-private" "$ROOT/usr/bin/patchelf")
  path=$PREFIX/lib-private:$PREFIX/usr/lib:$PREFIX/usr/lib/condor:$PREFIX/usr/lib/$TRIPLET/condor:$PREFIX/usr/lib/$TRIPLET
  log "patching loader and library path"
  while IFS= read -r -d '' file; do
    [ "$(head -c4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
    [ "$file" != "$ROOT/usr/bin/patchelf" ] || continue
    if "${patchelf[@]}" --print-interpreter "$file" >/dev/null 2>&1; then
      "${patchelf[@]}" --set-interpreter "$PREFIX/lib-private/$LOADER" --force-rpath --set-rpath "$path" "$file"
    elif "${patchelf[@]}" --print-rpath "$file" >/dev/null 2>&1; then
      "${patchelf[@]}" --force-rpath --set-rpath "$path" "$file"
    fi
  done < <(find "$ROOT/usr" -type f -print0)
  rm -f "$ROOT/usr/bin/patchelf"
}

publish() {                              # into place in one step, marked complete only when it proved sound
  printf 'suite=%s\nversion=%s\n' "$SUITE" "$(dpkg-deb -f "$WORK/debs/${PACKAGES[0]}"_*.deb Version)" > "$WORK/complete"
  ls "$WORK/debs" > "$ROOT/debs.list"
  chmod 755 "$ROOT"
  rm -rf "$PREFIX.old"
  [ ! -e "$PREFIX" ] || mv "$PREFIX" "$PREFIX.old"
  mv "$ROOT" "$PREFIX"
  rm -rf "$PREFIX.old"
  verify
  mv "$WORK/complete" "$PREFIX/.complete"
}

verify() {                               # every program and plugin must resolve inside the prefix
  local name file outside path
  for name in "${FILES[@]}"; do
    file=$(find "$PREFIX" -name "$name" \( -type f -o -type l \) -print -quit)
    [ -n "$file" ] || die "the packages of $SUITE lack $name"
    path=(); [[ $file != */lib-private/* ]] || path=(--library-path "$PREFIX/lib-private")    # as its program's own path
    outside=$("$PREFIX/lib-private/$LOADER" "${path[@]}" --list "$file" 2>&1 | grep -v -e linux-vdso -e "$PREFIX/" -e 'statically linked' || true)
    [ -z "$outside" ] || die "$file needs libraries from outside the prefix: $outside"
  done
}

if complete; then exit 0; fi
check_system
mkdir -p "$(dirname "$PREFIX")"
exec 9>"$PREFIX.lock"; flock 9           # of two runs at once, one works and the other waits
if complete; then exit 0; fi
WORK=$(mktemp -d "$PREFIX.build.XXXXXX"); trap 'rm -rf "$WORK"' EXIT
ROOT=$WORK/root
configure_apt
fetch
gather_libraries
patch_binaries
publish
log "${PACKAGES[*]} $(sed -n 's/^version=//p' "$PREFIX/.complete") in $PREFIX"
