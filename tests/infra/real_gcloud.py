"""Answers calls of gcloud by gcloud's own code, on the stand-in of Google's APIs.

gcloud is loaded once, in a process of its own, because its start is most of what a call costs. That
process runs this file, which imports nothing of the project, with the folder of its libraries. A
flag that it does not have, a field that an API does not have, and a condition that it cannot read
are refused as on Google Cloud.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BELOW_APIS = ("artifactregistry", "cloudresourcemanager", "cloudscheduler", "iam", "serviceusage")
PATHS = {
    **dict.fromkeys(("container", "logging", "pubsub"), ""),
    **{name: f"apis/{name}/" for name in BELOW_APIS},
    **{name: f"apis/{name}/{name}/v1/" for name in ("compute", "storage")},
}
"""Where the stand-in serves each API."""


def find_sdk() -> Path:
    """Return the folder that gcloud is installed in, or fail the test with what to do."""
    gcloud = shutil.which("gcloud")
    near = [Path(gcloud).resolve().parents[1], Path("/usr/lib/google-cloud-sdk")] if gcloud else []
    sdk = next((each for each in near if (each / "lib/googlecloudsdk").is_dir()), None)
    if sdk is None:
        pytest.fail("this test needs gcloud with its libraries: https://cloud.google.com/sdk/docs/install")
    return sdk


@contextlib.contextmanager
def gcloud_on(rest: str, project: str, folder: Path) -> Iterator[Any]:
    """Load gcloud for the time of the block; yield what runs its words."""
    environment = {
        **os.environ,
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": f"{rest}/{path}" for name, path in PATHS.items()},
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": project,
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "KUBECONFIG": str(folder / "kubeconfig"),
    }
    command = [sys.executable, "-I", __file__, str(find_sdk() / "lib")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(words: list[str]) -> tuple[int, str, str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
            code, answer, complaint = json.loads(process.stdout.readline())
            return code, answer, complaint

        yield run
        process.communicate()


def main(libraries: str) -> None:
    """Be gcloud: a line of words in, a line of what it answers out, until the input ends."""
    sys.path[:0] = [libraries, f"{libraries}/third_party"]
    from googlecloudsdk import gcloud_main  # type: ignore[import-not-found]  # noqa: PLC0415 -- after the path
    from googlecloudsdk.core import log  # type: ignore[import-not-found]  # noqa: PLC0415 -- after the path

    program, answers = gcloud_main.CreateCLI([]), sys.stdout
    for line in sys.stdin:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            log.Reset(out, err)
            try:
                program.Execute(json.loads(line))
            except SystemExit as end:
                code = int(end.code or 0)
        answers.write(json.dumps([code, out.getvalue(), err.getvalue()]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
