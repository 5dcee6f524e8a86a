#!/bin/sh
# SCRIPT DEFER 75 <seconds> PRE of a group's nodes: pre.sh <node>; 75 = the cool-off of the last failure still runs.
# DAGMan asks again later; nothing sleeps in a script slot.
read -r not_before 2>/dev/null <"${1:-}.not_before" || exit 0
case $not_before in '' | *[!0-9]*) exit 0 ;; esac
[ "$(date +%s)" -ge "$not_before" ] || exit 75
