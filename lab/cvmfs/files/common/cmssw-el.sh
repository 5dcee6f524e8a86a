#!/bin/bash
# cmssw-el8 [container options] --command-to-run <words>: runs a command in the operating system of its name. The
# stand-in has no containers; it only notes the system for scramv1.
while [ $# -gt 0 ]; do
    case $1 in
    --pwd) cd "$2" || exit 255; shift ;;
    -B) [ -d "$2" ] || { echo "cannot bind $2" >&2; exit 255; }; shift ;;
    --command-to-run | --) shift; break ;;
    *) echo "unknown option $1" >&2; exit 255 ;;
    esac
    shift
done
STANDIN_SYSTEM=${0##*/cmssw-el}
export STANDIN_SYSTEM
exec sh -c "$*"
