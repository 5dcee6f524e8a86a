"""CMSSW on a worker node: what the payload kind and the merge tool `cmssw` share."""
