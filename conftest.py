"""The fixtures of running clusters and stacks, for the tests of product, stand-ins and demo."""

pytest_plugins = ["tests.running_stacks"]
