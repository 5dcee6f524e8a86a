#!/bin/bash
# Runs one cmsRun in the current directory: cmsrun.sh <software directory> <release> <ScramArch> [merge] [generate] [pileup]
# Expects PSet.py (merge.json for a merge), tweak.json, PSetRun.py and for pileup pileup.json. `stage` tells how far
# it has come: an exit status cannot, since cmsRun's own codes 8007 to 8010 end as 71 to 74.
software=$1 release=$2 arch=$3
shift 3

words=" $* "
has() { [[ $words == *" $1 "* ]]; }
reach() { echo "$1" >"$start/stage" || exit 1; }

start=$PWD
export SCRAM_ARCH=$arch FRONTIER_LOG_LEVEL=warning HOME=${HOME:-$PWD}

reach software
# shellcheck disable=SC1091
. "$software/cmsset_default.sh"
type scramv1 >/dev/null || exit 1

reach project
[ -d "$release" ] || scramv1 project CMSSW "$release" || exit 1

reach enter
cd "$release" || exit 1

reach runtime
runtime=$(scramv1 runtime -sh) || exit 1
eval "$runtime" || exit 1
cd "$start" || exit 1

reach configure
tool() { # <program> <arguments>: changes PSet.pkl
    local program=$1
    shift
    "$program" --input_pkl PSet.pkl --output_pkl PSet.pkl "$@"
}
if has merge; then
    cmssw_wm_create_process.py --output_pkl PSet.pkl --funcname merge --funcargs merge.json || exit 1
else
    reach pset
    edm_pset_pickler.py --input PSet.py --output_pkl PSet.pkl 2>pset.log || {
        cat pset.log >&2
        exit 1
    }
    reach configure
fi
tool edm_pset_tweak.py --json tweak.json --create_untracked_psets || exit 1
if has pileup; then tool cmssw_handle_pileup.py --pileup_dict pileup.json || exit 1; fi
if has generate; then tool cmssw_handle_nEvents.py || exit 1; fi

reach cmsRun
exec cmsRun -j FrameworkJobReport.xml PSetRun.py
