"""The tools of cmssw-wm-tools, by their names and arguments: each changes a pickled configuration."""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import FWCore.ParameterSet.Config as cms

CUSTOM = "customTypeCms."
MIXING = ("MixingModule", "DataMixingModule", "PreMixingModule")


def main(tool: str, words: list[str]) -> int:
    args = parse(tool, words)
    if tool == "edm_pset_pickler.py":
        names: dict[str, Any] = {}
        exec(compile(Path(args.input).read_text(), args.input, "exec"), names)
        return save(names["process"], args.output_pkl)
    if tool == "cmssw_wm_create_process.py":
        return save(merge_process(json.loads(Path(args.funcargs).read_text())), args.output_pkl)
    with open(args.input_pkl[0], "rb") as handle:
        process = pickle.load(handle)
    change = {
        "edm_pset_tweak.py": tweak,
        "cmssw_handle_nEvents.py": set_events,
        "cmssw_handle_pileup.py": set_pileup,
    }[tool]
    return change(process, args) or save(process, args.output_pkl[0])


def parse(tool: str, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=tool)
    if tool in ("edm_pset_pickler.py", "cmssw_wm_create_process.py"):
        parser.add_argument("--output_pkl", required=True)
        for name in ("--input",) if tool == "edm_pset_pickler.py" else ("--funcname", "--funcargs"):
            parser.add_argument(name, required=True)
        return parser.parse_args(words)
    parser.add_argument("--input_pkl", nargs="+", required=True)
    parser.add_argument("--output_pkl", nargs="+", required=True)
    if tool == "edm_pset_tweak.py":
        parser.add_argument("--json", nargs="+", required=True)
        for name in ("--create_untracked_psets", "--skip_if_set", "--allow_failed_tweaks"):
            parser.add_argument(name, action="store_true")
    if tool == "cmssw_handle_pileup.py":
        parser.add_argument("--pileup_dict", required=True)
        parser.add_argument("--skip_pileup_events")
        parser.add_argument("--random_seed")
    return parser.parse_args(words)


def save(process: cms.Process, path: str) -> int:
    with open(path, "wb") as handle:
        pickle.dump(process, handle, protocol=0)
    return 0


def tweak(process: cms.Process, args: argparse.Namespace) -> int:
    """Set each parameter that the JSON file names."""
    for key, value in json.loads(Path(args.json[0]).read_text()).items():
        *path, last = key.removeprefix("process.").split(".")
        place = process
        for name in path:
            if not hasattr(place, name):
                if not args.create_untracked_psets:
                    return fail(f"Tweak not applied {key}")
                setattr(place, name, cms.untracked.PSet())
            place = getattr(place, name)
        if isinstance(value, str) and value.startswith(CUSTOM):
            value = eval(f"cms.{value.removeprefix(CUSTOM)}", {"cms": cms})
        setattr(place, last, value)
        print(f"Set attribute {key}")
    return 0


def set_events(process: cms.Process, _args: argparse.Namespace) -> int:
    """Set `nEvents` of producers to the number of events of the job."""
    for producer in process.producers_().values():
        if hasattr(producer, "nEvents"):
            producer.nEvents = process.maxEvents.input.value()
    return 0


def set_pileup(process: cms.Process, args: argparse.Namespace) -> int:
    """Set the pileup files of each type in the modules that mix it, in any order."""
    found = json.loads(Path(args.pileup_dict).read_text())
    for module in [*process.producers_().values(), *process.filters_().values()]:
        if module.type_() not in MIXING:
            continue
        wanted = "data" if module.type_() == "DataMixingModule" and "data" in found else "mc"
        source = getattr(module, "input", None) or module.secsource
        source.fileNames = cms.untracked.vstring(found.get(wanted, {}).get("FileList", []))
        random.shuffle(source.fileNames.value())
    return 0


def merge_process(arguments: dict[str, Any]) -> cms.Process:
    process = cms.Process(arguments.get("process_name", "Merge"))
    process.source = cms.Source("PoolSource", fileNames=cms.untracked.vstring([]))
    name = arguments.get("output_file", "Merged.root")
    module = cms.OutputModule("PoolOutputModule", fileName=cms.untracked.string(name))
    setattr(process, arguments.get("outputmod_label", "Merged"), module)
    return process


def fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
