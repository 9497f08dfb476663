"""A stand-in for reading Cloud Logging: ``entries:list`` over the log files of a local stack.

It stores nothing.

Documentation: README.md. Reference:
https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""
