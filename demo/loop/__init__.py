"""The demo: applies JobSets to a local stack, shows the run, verifies the end, writes a report.

What lives here: reading manifests, observing through public APIs and logs, the timeline model, its
views and reports. What does not: the processes themselves (`demo.stack`).
"""
