"""The table of kinds: one module has everything that is particular to one kind of workload.

`kind` defines an entry, `objects` reads the API's JSON, `table` lists the entries. All of it is
pure.
"""
