"""MkDocs builds the site of the documentation; it is strict about links, headings and pages."""

import os
from pathlib import Path

import pytest

from tests.program_runs import run_python
from tests.run import ROOT


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = ("-m", "mkdocs", "build", "--site-dir", tmp_path / "site")
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}

    run_python(*command, cwd=ROOT, env=environ, seconds=240, succeeds=True)
