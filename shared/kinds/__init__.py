"""The table of kinds: one module has everything that is particular to one kind of workload.

`kind` has the class of all, `read` reads the API's JSON, `table` lists the kinds. All of it is
pure.
"""
