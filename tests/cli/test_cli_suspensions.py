"""`why` says of a suspended workload who suspended it and who resumes it."""

from typing import Any, cast

import pytest

from cli.explanation.why import History, add_suspension, read_suspension
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.table import choose_kinds
from shared.model.errors import Denied, NotFound, ProvisionerError
from tests.builders import CLUSTER
from tests.cli.cli_world import a_deployment, show

(JOBSET,) = choose_kinds(("JobSet",))


class OneObject:
    """An API server with one object, or with an error."""

    def __init__(self, body: dict[str, Any] | ProvisionerError) -> None:
        self.body = body

    def get(self, _path: str, _kind: type) -> dict[str, Any]:
        """Return it."""
        if isinstance(self.body, ProvisionerError):
            raise self.body
        return self.body


def written(manager: str, at: str) -> dict[str, Any]:
    return {"manager": manager, "time": at, "fieldsV1": {"f:spec": {"f:suspend": {}}}}


def a_body(
    marks: dict[str, str] | None = None, *, suspended: bool = True, writers: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"metadata": {"labels": marks or {}, "managedFields": writers or []}, "spec": {"suspend": suspended}}


def read(body: dict[str, Any] | ProvisionerError) -> str:
    return read_suspension(cast("KubernetesApi", OneObject(body)), JOBSET, "default", "train")


def test_the_last_writer_of_the_field_and_the_command_that_resumes_are_named() -> None:
    writers = [written("kubectl-edit", "2026-11-26T10:00:00Z"), written("controller", "2026-11-26T09:00:00Z")]
    answer = read(
        a_body(writers=[*writers, {"manager": "kubectl", "time": "2026-11-26T11:00:00Z", "fieldsV1": {}}])
    )

    assert answer == (
        "is suspended by kubectl-edit, so it needs no pools; to resume it: kubectl patch jobsets train -n default "
        """--type=merge -p '{"spec":{"suspend":false}}'"""
    )


def test_a_queue_of_kueue_resumes_its_own() -> None:
    answer = read(a_body({"kueue.x-k8s.io/queue-name": "tpu-queue"}))

    assert answer.endswith(
        "Kueue resumes it when its queue tpu-queue admits it (kubectl describe workloads -n default)"
    )


@pytest.mark.parametrize("body", [a_body(suspended=False), NotFound("gone")], ids=["awake", "gone"])
def test_what_is_not_suspended_has_nothing_to_say(body: dict[str, Any] | ProvisionerError) -> None:
    assert read(body) == ""


def test_why_shows_it_instead_of_needs_none_or_says_that_it_could_not_be_read() -> None:
    def ask(body: dict[str, Any] | ProvisionerError) -> tuple[History, str]:
        deployment = a_deployment()
        deployment.apis[CLUSTER] = cast("KubernetesApi", OneObject(body))
        history = History(CLUSTER, "default", "train", kind="JobSet", exists=True)
        add_suspension(history, deployment)
        return history, "\n".join(show(history))

    asleep, output = ask(a_body(writers=[written("kueue", "2026-11-26T10:00:00Z")]))
    _, awake = ask(a_body(suspended=False))
    _, unread = ask(Denied("403"))

    assert output.startswith("now: JobSet default/train is suspended by kueue, so it needs no pools")
    assert asleep.as_data()["suspended"].startswith("is suspended by kueue")
    assert "has no pools with its labels, and no pod that waits for one" in awake
    assert "not read: whether it is suspended: " in unread
