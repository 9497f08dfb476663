"""A person's files never reach these tests."""

from tests.cli.conftest import _bare_environment, _nobody_s_machine  # noqa: F401 -- pytest finds them by name
