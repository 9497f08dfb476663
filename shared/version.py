"""The version of everything that is released together: the CLI, the functions and the exporter.

This is its only place: the package's metadata is built from it, so it must stay a plain literal.
docs/develop/release.md says when it changes.
"""

VERSION = "0.3.0"
