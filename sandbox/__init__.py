"""Code that runs outside WMS2: the job wrapper on worker nodes and DAGMan's scripts on the submit host.

Standard library only, Python 3.9 or newer, no import of any other WMS2 package: this folder travels alone.
"""
