"""The first release, as git has it: what users of 0.1.0 upgrade from."""

COMMIT = "79b806cdc91d0e769f7e7c6c7c22faa5834eee34"
"""The last commit whose changes the changelog lists under 0.1.0."""
