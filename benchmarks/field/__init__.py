"""The same work for this provisioner and for the Go TPU Provisioner, on the same local cloud.

`python -m benchmarks.field --help` says how to run it. docs/figures.md is written from the
records of the runs.
"""
