"""The fixtures of running clusters and stacks, for the tests of the product, the stand-ins and the demo."""

pytest_plugins = ["tests.running_stacks"]
