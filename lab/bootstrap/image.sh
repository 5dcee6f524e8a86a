# The image as deploy/build-image makes it, unpacked where the stack's owner can start it. Sourced by wms2.

make_image() { # its tests are skipped, and say why, where there is no builder or no base to build on
  local key other
  type -P buildah >/dev/null || { export WMS2_IMAGE_MISSING="buildah is not installed"; return 0; }
  key=$(tar -C "$HERE" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --exclude=__pycache__ -cf - Dockerfile .dockerignore \
          deploy/build-image $(ls "$HERE" | grep -vxFf "$HERE/.dockerignore") | sha256sum | cut -c1-12)
  export WMS2_IMAGE=$WMS2_CACHE/image-$key
  exec 8>"$WMS2_CACHE/image.lock"; flock 8
  [ -f "$WMS2_IMAGE/.complete" ] || build_image
  exec 8>&-
  [ -n "${WMS2_IMAGE:-}" ] || return 0
  [ ! -f "$WMS2_IMAGE/.complete" ] || touch "$WMS2_IMAGE/.complete"
  for other in "$WMS2_CACHE"/image-*/.complete; do   # each is large; those of another day are not in use
    [ -z "$(find "$other" -mtime +0 2>/dev/null)" ] || rm -rf "${other%/*}"
  done
}

build_image() { # a failed build leaves its log there, for the tests to fail with
  local code=0
  check_room "$WMS2_CACHE" "$ROOM_IMAGE_MB" WMS2_CACHE
  say "building the image for its tests, see $WMS2_IMAGE/build.log"
  rm -rf "$WMS2_IMAGE"
  [ "$(du -sm "$WMS2_CACHE/buildah" 2>/dev/null | cut -f1)" -le "$ROOM_LAYERS_MB" ] 2>/dev/null || rm -rf "$WMS2_CACHE/buildah"
  mkdir -p "$WMS2_IMAGE"
  WMS2_IMAGE_STORE=$WMS2_CACHE/buildah "$HERE/deploy/build-image" --unpack "$WMS2_IMAGE" >"$WMS2_IMAGE/build.log" 2>&1 </dev/null || code=$?
  if [ $code = 3 ]; then
    export WMS2_IMAGE_MISSING="the image cannot be built here: $(sed -n 's/^.*ERROR: //p' "$WMS2_IMAGE/build.log" | tail -1)"
    unset WMS2_IMAGE
  elif [ $code = 0 ]; then
    mkdir "$WMS2_IMAGE/files"
    [ "$ME" != 0 ] || chown "$OWNER:" "$WMS2_IMAGE/files"
    # they belong to the owner, the only user of containers that an ordinary user starts
    as_owner tar -C "$WMS2_IMAGE/files" --no-same-owner -xf - <"$WMS2_IMAGE/files.tar" \
      && as_owner chmod -R u+rwX "$WMS2_IMAGE/files" && touch "$WMS2_IMAGE/.complete"
    rm -f "$WMS2_IMAGE/files.tar"
  fi
}
