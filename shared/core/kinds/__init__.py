"""The table of kinds: all that is particular to one kind of workload stands in its one module here.

`kind` says what an entry answers, `objects` reads the API's JSON, `table` lists the entries. Pure, as all of the
core: an entry is tested by calling it.
"""
