"""Shared by all that is deployed: functions, exporter and CLI import it, it imports none of them.

The version is that of everything that is released together: the CLI, the functions and the
exporter. The package's metadata is built from it, so it must stay a plain literal.
docs/develop/release.md says when it changes.
"""

VERSION = "0.3.0"
