# As root the application runs from a copy its owner can read. Sourced by wms2.

copy_source() {
  [ "$ME" = 0 ] || return 0
  as_owner rm -rf "$APP.new" "$APP.old"
  as_owner mkdir "$APP.new"
  tar -C "$HERE" --exclude=./.git --exclude=__pycache__ --exclude=node_modules --exclude=./.venv --exclude='.*_cache' --exclude=.hypothesis \
      --exclude=.env --exclude='.env.*' --exclude='*.env' --exclude='*.key' --exclude='*.pem' -cf - . \
    | as_owner tar -C "$APP.new" --no-same-owner --no-same-permissions -xf - || die "cannot copy the source to $APP: check the disk space there"
  as_owner chmod -R u+rwX "$APP.new"
  [ ! -e "$APP" ] || as_owner mv "$APP" "$APP.old"
  as_owner mv "$APP.new" "$APP"
  as_owner rm -rf "$APP.old"
}
