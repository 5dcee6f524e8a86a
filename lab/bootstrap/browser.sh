# Chromium for the browser tests: the machine's own, or Debian's. Sourced by wms2.
BROWSER_PACKAGES="chromium fonts-dejavu-core"

make_browser() { # without it the tests fail and say how to install it
  WMS2_CHROMIUM=${WMS2_CHROMIUM:-$(find_browser)} || true
  if [ -z "$WMS2_CHROMIUM" ] && [ "$ME" = 0 ] && type -P apt-get >/dev/null; then
    say "installing chromium for the browser tests"
    exec 8>"$WMS2_CACHE/browser.lock"; flock 8
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $BROWSER_PACKAGES; } \
      >>"$WMS2_CACHE/log/install-browser.log" 2>&1 </dev/null || true
    exec 8>&-
    WMS2_CHROMIUM=$(find_browser) || true
  fi
  export WMS2_CHROMIUM WMS2_CHROMIUM_HINT="there is no Chromium: run sudo apt-get install --no-install-recommends $BROWSER_PACKAGES"
}

find_browser() { find_program chromium || find_program chromium-browser || find_program google-chrome; }
