"""The demo: applies JobSets to a local stack, shows what happens, verifies the end, and writes a report.

What lives here: reading manifests, observing through public APIs and logs, the timeline model, its views and
reports. What does not: the processes themselves (`local.stack`).
"""
