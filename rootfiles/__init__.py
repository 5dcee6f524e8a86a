"""ROOT files: generate, skim, merge and inspect them, with numpy and uproot. Imports nothing of the project.

The sandbox runs it as `python -m rootfiles ACTION TASK.json RESULT.json` in a Python that has these packages;
the outputs worker imports `inspect`. Events are entries of the tree `Events`, with the branches `run`,
`luminosityBlock` and `event` where the lumis of events matter.
"""
