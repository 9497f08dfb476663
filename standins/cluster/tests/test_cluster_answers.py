"""What the embedded cluster refuses and the real one does not, or that only its own rules catch.

What both answer alike is asked of both in `tests/loop/answers.yaml`.
"""

import copy
from typing import Any

import httpx
import pytest

from standins.cluster.refusals import PLAYED_OF_JOBS, PLAYED_OF_JOBSETS
from standins.cluster.tests.conftest import Json, jobset

REPLICATED_JOB = "spec/replicatedJobs/0"
KINDS: dict[str, tuple[str, Json]] = {
    "jobset": ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets", jobset()),
    "job": (
        "/apis/batch/v1/namespaces/{}/jobs",
        {"metadata": {"name": "asked"}} | jobset()["spec"]["replicatedJobs"][0]["template"],
    ),
    "pod": (
        "/api/v1/namespaces/{}/pods",
        {"metadata": {"name": "asked"}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
    ),
}
NOT_PLAYED = "422 CLUSTER=real"
BODIES: list[tuple[str, str, Any, str]] = [
    *(("jobset", f"spec/{field.replace('.', '/')}", "x", NOT_PLAYED) for field in PLAYED_OF_JOBSETS),
    *(("job", f"spec/{field}", "x", NOT_PLAYED) for field in PLAYED_OF_JOBS),
    *(("jobset", f"{REPLICATED_JOB}/template/spec/{field}", "x", NOT_PLAYED) for field in PLAYED_OF_JOBS),
    ("jobset", f"{REPLICATED_JOB}/dependsOn", [{"name": "x"}], NOT_PLAYED),
    ("jobset", f"{REPLICATED_JOB}/replicas", "two", "400 cannot be handled as a JobSet"),
    ("job", "spec/backoffLimit", -1, "422 greater than or equal to 0"),
    ("job", "spec/template/spec/restartPolicy", "Always", '422 "OnFailure", "Never"'),
    ("job", "kind", "Pod", "400 do not match those expected"),
    ("pod", "metadata/resourceVersion", "1", "400 should not be set"),
    ("pod", "metadata/annotations", {"a": 1}, "422 object of text to text"),
    ("pod", "spec/tolerations", "all", "400 cannot be handled as a Pod"),
]
REQUESTS = [
    ("GET", "colours", 404),
    ("GET", "pods/asked/log", 404),
    ("GET", "pods?watch=1&sendInitialEvents=true", 400),
    ("PATCH", "pods/asked?dryRun=All", 400),
    ("POST", "pods/asked", 405),
    ("PUT", "pods", 405),
    ("DELETE", "pods/asked?propagationPolicy=Orphan", 400),
]


@pytest.mark.parametrize(("kind", "path", "value", "answer"), BODIES)
def test_a_body_is_refused_with_what_would_be_valid(
    http: httpx.Client, namespace: str, kind: str, path: str, value: Any, answer: str
) -> None:
    url, base = KINDS[kind]
    body = copy.deepcopy(base)
    target: Any = body
    *steps, last = path.split("/")
    for step in steps:
        target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
    target[last] = value
    said = http.post(url.format(namespace), json=body)
    code, _, words = answer.partition(" ")
    assert (str(said.status_code), said.json()["code"]) == (code, said.status_code), said.text
    assert words in said.json()["message"]


@pytest.mark.parametrize(("method", "path", "code"), REQUESTS)
def test_a_request_is_refused(http: httpx.Client, namespace: str, method: str, path: str, code: int) -> None:
    answer = http.request(method, f"/api/v1/namespaces/{namespace}/{path}")
    assert answer.json()["code"] == answer.status_code == code, answer.text
