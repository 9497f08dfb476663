"""A stand-in for the dashboards of all Ray heads: the few HTTP answers that KubeRay requests.

KubeRay finds a dashboard by the name of the head's Service, which nothing here resolves. So the
operator is started again with this server as its HTTP proxy: it gets each request with the full
address, and tells the heads apart by it. What it says of jobs and applications is decided by the
test; all else of Ray is absent. Paths and fields:
https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html and
https://docs.ray.io/en/latest/serve/api/index.html#serve-rest-api.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from standins.controlplane.plane import ControlPlane
from standins.processes.local_answers import Answer, Asked, LocalAnswers

Json = dict[str, Any]
RUNNING = "RUNNING"


class Dashboards(LocalAnswers):
    """All dashboards of one cluster, used as a context manager."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.jobs: dict[tuple[str, str], Json] = {}
        """By the head's host name and the submission id."""
        self.applications: dict[str, list[str]] = {}
        """Names of what was deployed on a head, by its host name."""
        self.deploying = False
        """Whether what is deployed is not ready to serve yet."""

    @property
    def environment(self) -> dict[str, str]:
        """What makes a program ask here for all that is not on this machine."""
        return {"HTTP_PROXY": self.url, "http_proxy": self.url, "NO_PROXY": "127.0.0.1,localhost"}

    def has(self, submission: str) -> bool:
        """Return whether a job was submitted."""
        return any(known == submission for _, known in list(self.jobs))  # the server adds to them

    def end(self, submission: str, status: str) -> None:
        """Let a job end."""
        for (_, known), job in list(self.jobs.items()):
            if known == submission:
                job |= {"status": status, "end_time": _now()}

    def _answer(self, asked: Asked) -> Answer:
        status, answer = self._say(asked.method, asked.path, asked.body)
        return Answer(status, json.dumps(answer).encode())

    def _say(self, method: str, url: str, body: bytes) -> tuple[int, Json]:
        parts = urlsplit(url)
        host, path = str(parts.hostname), parts.path
        if path.startswith("/api/serve/applications"):
            return self._serve(method, host, body)
        if method == "POST" and path == "/api/jobs/":
            submission = str(json.loads(body)["submission_id"])
            job = {"submission_id": submission, "status": RUNNING, "start_time": _now(), "type": "SUBMISSION"}
            self.jobs[host, submission] = job
            return 200, {"submission_id": submission, "job_id": submission}
        submission, _, action = path.removeprefix("/api/jobs/").partition("/")
        known = self.jobs.get((host, submission))
        if known is None:
            return 404, {}
        return 200, {"stopped": True} if action == "stop" else known

    def _serve(self, method: str, host: str, body: bytes) -> tuple[int, Json]:
        if method == "PUT":
            self.applications[host] = [str(each["name"]) for each in json.loads(body)["applications"]]
            return 200, {}
        status = "DEPLOYING" if self.deploying else RUNNING
        known = self.applications.get(host, ())
        return 200, {"applications": {name: {"name": name, "status": status, "deployments": {}} for name in known}}


@contextmanager
def answering(plane: ControlPlane, operator: str) -> Iterator[Dashboards]:
    """Let these dashboards answer a control plane's KubeRay operator while the context lasts."""
    with Dashboards() as dashboards:
        plane.kill(operator)
        plane.start(operator, dashboards.environment)
        yield dashboards
        plane.kill(operator)
        plane.start(operator)


def _now() -> int:
    return int(time.time() * 1000)
