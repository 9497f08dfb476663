"""Every write of the cluster: create, replace, patch, bind, delete, and the Events of controllers.

HTTP requests and controllers both write through this package, so that the same rules hold for both.
It imports `admission`, `objects` and `store`.
"""
