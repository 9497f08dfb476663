"""The build's own smoke test on a deployed system, with real gcloud."""

import os
import subprocess
from collections.abc import Callable

from demo.deploy.closed_loop import ClosedLoop
from demo.stack.layout import LOCATION, PROJECT, PROJECT_ROOT
from standins.googlecloud.mock_program import NOT_FOR_CLIENTS

_BUILD = PROJECT_ROOT / "infra" / "build"
_SCRIPTS = ("provision-02-state-bucket.sh", "provision-10-smoke.sh")
"""The second one keeps the functions' archive in the bucket that the first one creates."""
_ANSWERED = "and found nothing to do, as expected"
_OLD_UPLOADS = "HTTPError 400: mime: invalid media parameter"
"""What a mock that was built from older handlers says to an upload of gcloud."""
_SECONDS_MAX = 240


def run_smoke(loop: ClosedLoop, say: Callable[[str], None]) -> list[str]:
    """Run the last script of the provision build; return what went wrong.

    It publishes by gcloud, and looks for the function's answer in the functions' own logs.

    Raises:
        NotReady, ProcessDied: a process that it needs does not start.
    """
    mock, home = loop.let_people_in(), loop.layout.home
    environment = {key: value for key, value in os.environ.items() if key not in NOT_FOR_CLIENTS}
    environment |= mock.describe_clients() | mock.describe_gcloud(home / "gcloud")
    environment |= {"PROJECT_ID": PROJECT, "REGION": LOCATION, "BUILD_FOLDER": str(home)}
    environment |= {"RETRY_PAUSE_SECONDS": "1"}
    for script in _SCRIPTS:
        command = ["bash", str(_BUILD / script)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
        )
        output = f"{done.stdout}{done.stderr}"
        if done.returncode and _OLD_UPLOADS not in output:
            return [f"{script}: {output[-4000:]}"]
    answers = [each for each in output.splitlines() if each.endswith(_ANSWERED)]
    for each in answers:
        say(f"the build's smoke test: {each}")
    if _OLD_UPLOADS in output:
        say("the functions' archive is not kept: this mock is built from older handlers; build it anew")
    return [] if answers else [f"{_SCRIPTS[-1]}: {output[-4000:]}"]
