"""The fixtures of logging, clusters and stacks, for the tests of product, stand-ins and demo."""

pytest_plugins = ["tests.log_records", "tests.running_stacks", "tests.loop.table"]
