"""The deployed system, run: real Terraform deploys to a mock of Google Cloud, and that is started.

What lives here: the parts of the cloud that the stand-ins lack, and the steps of the whole. What
does not: the mock (`standins.googlecloud`), and the stack of `make demo` (`demo.stack`).
"""
