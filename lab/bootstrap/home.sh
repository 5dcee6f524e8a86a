# Where state and rebuildable things live, and whether there is room. Sourced by wms2.
#   WMS2_HOME   the state of one stack   (root: /var/lib/wms2/<key>, others: ~/.local/state/wms2/<key>)
#   WMS2_CACHE  shared by all stacks: virtual environments, HTCondor (root: /var/cache/wms2, others: ~/.cache/wms2)
ROOM_FIRST_MB=1500                                   # virtual environment, HTCondor and their downloads
ROOM_HOME_MB=500
ROOM_IMAGE_MB=5000                                   # the image's layers and its files, unpacked
ROOM_LAYERS_MB=15000                                 # layers of earlier images are kept for the next one up to this

choose_places() {
  local key; key=$(printf %s "$HERE" | sha256sum | cut -c1-8)    # one stack per checkout unless told otherwise
  if [ "$ME" = 0 ]; then
    WMS2_HOME=${WMS2_HOME:-/var/lib/wms2/$key} WMS2_CACHE=${WMS2_CACHE:-/var/cache/wms2}
  else
    getent passwd "$ME" >/dev/null \
      || die "uid $ME has no passwd entry, and PostgreSQL and HTCondor refuse such a user: add one, or run as another user"
    [ -n "${WMS2_HOME:-}" ] && [ -n "${WMS2_CACHE:-}" ] || [ -n "${HOME:-}" ] \
      || die "HOME is not set: set it, or set WMS2_HOME and WMS2_CACHE"
    WMS2_HOME=${WMS2_HOME:-${XDG_STATE_HOME:-$HOME/.local/state}/wms2/$key}
    WMS2_CACHE=${WMS2_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wms2}
  fi
  WMS2_HOME=$(realpath -m -- "$WMS2_HOME") WMS2_CACHE=$(realpath -m -- "$WMS2_CACHE")
  local place; for place in "$WMS2_HOME" "$WMS2_CACHE"; do
    # these names go into configuration files and search paths
    [[ $place =~ ^[A-Za-z0-9/._+@=~-]+$ ]] || die "the path '$place' holds characters HTCondor cannot take: set WMS2_HOME and WMS2_CACHE to plain paths"
  done
  APP=$HERE; [ "$ME" != 0 ] || APP=$WMS2_HOME/app
  # a shell that evaluated `./wms2 env` names one stack's private servers: they are not from outside
  local name; for name in ${WMS2_PRIVATE:-}; do
    case $name in DATABASE_URL|REDIS_URL|CONDOR_CONFIG) unset "$name";; esac
  done
  unset WMS2_PRIVATE WMS2_STATE
  export WMS2_HOME WMS2_CACHE
}

check_owner() { # a stack is closed to other users, who would see nothing there and fail half way
  { [ ! -d "$WMS2_HOME" ] || [ -x "$WMS2_HOME" ]; } && { [ ! -e "$WMS2_HOME/run" ] || as_owner test -x "$WMS2_HOME/run"; } \
    || die "the stack in $WMS2_HOME belongs to user $(stat -c %U -- "$WMS2_HOME"), this would run as $OWNER: become that user, or set WMS2_HOME to another directory"
}

check_room() { # $1 = directory, $2 = MB needed, $3 = the variable that names another place
  local free; free=$(df -Pm -- "$(nearest "$1")" | awk 'NR==2{print $4}')
  [ "$free" -ge "$2" ] || die "only $free MB free for $1, $2 MB are needed: free some space or set $3 to a larger disk"
}
nearest() { local d=$1; until [ -d "$d" ]; do d=$(dirname "$d"); done; echo "$d"; }

make_home() { # the state directory belongs to the user who runs the stack, all of it
  if [ "$ME" = 0 ] && [ "$(stat -c %U "$WMS2_HOME" 2>/dev/null)" != "$OWNER" ]; then
    [ -z "$(ls -A "$WMS2_HOME" 2>/dev/null)" ] || die "WMS2_HOME=$WMS2_HOME is not empty and does not belong to user $OWNER: choose an empty or a new directory"
    mkdir -p "$WMS2_HOME" && chown "$OWNER:" "$WMS2_HOME" && chmod 755 "$WMS2_HOME" || die "cannot create WMS2_HOME=$WMS2_HOME: set it to a place that can be written"
  fi
  mkdir -p "$WMS2_CACHE/log" || die "cannot create WMS2_CACHE=$WMS2_CACHE: set it to a place that can be written"
  as_owner test -r "$WMS2_CACHE" || die "user $OWNER cannot read WMS2_CACHE=$WMS2_CACHE because a directory above it is closed: choose another place, for instance below /var/cache"
  as_owner sh -c 'umask 077; mkdir -p "$1/home" "$1/log" "$1/run" "$1/data" "$1/dags"' - "$WMS2_HOME" 2>/dev/null \
    || die "user $OWNER cannot write WMS2_HOME=$WMS2_HOME (a directory above it may be closed): choose another place, for instance below /var/lib"
  cd "$WMS2_HOME"                                    # initdb and others die in a directory they cannot read
}

disposable_home() { # a state directory for one run, so that runs at the same time do not meet
  as_owner mkdir -p "$WMS2_HOME/runs"
  WMS2_HOME=$(as_owner mktemp -d "$WMS2_HOME/runs/$1.XXXXXX")
  as_owner chmod 755 "$WMS2_HOME"
  [ "$ME" != 0 ] || APP=$WMS2_HOME/app
  export WMS2_DISPOSABLE=1
  make_home
}
