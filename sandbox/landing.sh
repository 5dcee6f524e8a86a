#!/bin/sh
# SCRIPT DEFER 75 <seconds> PRE of a group's landing: landing.sh <node>; runs in the group directory.
# ../landing_sites has a line "<group> <site>,<site>" for each group that may land elsewhere than planned, or
# "<group> -" for one without a usable site: it is deferred (75) until a site may be used again.
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
sites=
if [ -e ../landing_sites ]; then
    sites=$(sed -n "s/^${PWD##*/} //p" ../landing_sites) || exit 75
fi
if [ "$sites" = - ]; then
    echo "no site may be used by ${PWD##*/} now: its landing waits" >&2
    exit 75
fi
# The submit file includes this; DAGMan's direct submission fails on an absent include.
echo "${sites:+landing_sites = $sites}" >.landing_sites.inc.tmp && mv .landing_sites.inc.tmp landing_sites.inc || exit 75
