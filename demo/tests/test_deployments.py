"""Contradictions in what is deployed: each part is changed in turn, and named."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demo.deploy.deployments import INVOKER, PUBLISHER, SUBSCRIBER, TOKEN_CREATOR, Deployment

PARENT = "projects/a-project/locations/us-east5"
URI = "https://{}-1.us-east5.run.app"
DEAD = "projects/a-project/topics/dead"
PUBSUB = "serviceAccount:service-7@gcp-sa-pubsub.iam.gserviceaccount.com"
LOGGING = "serviceAccount:service-7@gcp-sa-logging.iam.gserviceaccount.com"
PUSH = "push@a-project.iam.gserviceaccount.com"
SCHEDULER = "scheduler@a-project.iam.gserviceaccount.com"
SUBSCRIPTION = "projects/a-project/subscriptions/collect"


def a_function(key: str) -> dict[str, Any]:
    return {
        "name": f"{PARENT}/functions/{key}",
        "buildConfig": {"entryPoint": key, "source": {"storageSource": {"bucket": "b", "object": "o.zip"}}},
        "serviceConfig": {
            "uri": URI.format(key),
            "service": f"{PARENT}/services/{key}",
            "serviceAccountEmail": f"{key}@a-project.iam.gserviceaccount.com",
            "environmentVariables": {
                "TPU_PROVISIONER_CLUSTERS": json.dumps({f"{PARENT}/clusters/a": {"endpoint": "https://a"}}),
                **({"TPU_PROVISIONER_DEAD_LETTER_TOPIC": DEAD} if key == "collect" else {}),
            },
        },
    }


def a_policy(*grants: tuple[str, str]) -> dict[str, Any]:
    return {"bindings": [{"role": role, "members": [member]} for role, member in grants]}


def a_deployment() -> Deployment:
    token = {"audience": URI.format("sweep"), "serviceAccountEmail": SCHEDULER}
    collect = "serviceAccount:collect@a-project.iam.gserviceaccount.com"
    return Deployment(
        functions=(a_function("collect"), a_function("sweep")),
        jobs=({"name": "a-job", "httpTarget": {"uri": URI.format("sweep"), "oidcToken": token}},),
        subscriptions=(
            {
                "name": SUBSCRIPTION,
                "topic": "projects/a-project/topics/events",
                "deadLetterPolicy": {"deadLetterTopic": DEAD},
                "pushConfig": {
                    "pushEndpoint": URI.format("collect"),
                    "oidcToken": {"audience": URI.format("collect"), "serviceAccountEmail": PUSH},
                },
            },
            {"name": "projects/a-project/subscriptions/pulled", "topic": DEAD},
        ),
        sinks=({"name": "a-sink", "destination": "pubsub.googleapis.com/projects/a-project/topics/operations"},),
        policies={
            f"run.googleapis.com/{PARENT}/services/collect": a_policy((INVOKER, f"serviceAccount:{PUSH}")),
            f"run.googleapis.com/{PARENT}/services/sweep": a_policy((INVOKER, f"serviceAccount:{SCHEDULER}")),
            f"iam.googleapis.com/projects/a-project/serviceAccounts/{PUSH}": a_policy((TOKEN_CREATOR, PUBSUB)),
            f"pubsub.googleapis.com/{SUBSCRIPTION}": a_policy((SUBSCRIBER, PUBSUB)),
            f"pubsub.googleapis.com/{DEAD}": a_policy((PUBLISHER, PUBSUB), (PUBLISHER, collect)),
            "pubsub.googleapis.com/projects/a-project/topics/operations": a_policy((PUBLISHER, LOGGING)),
        },
        number="7",
    )


def test_nothing_is_wrong_with_a_whole_deployment() -> None:
    assert a_deployment().find_problems() == []


def test_an_empty_project_is_no_deployment() -> None:
    empty = Deployment(functions=(), jobs=(), subscriptions=(), sinks=(), policies={}, number="7")

    assert empty.find_problems() == ["no function is deployed"]


@pytest.mark.parametrize("resource", sorted(a_deployment().policies))
def test_each_grant_is_missed(resource: str) -> None:
    whole = a_deployment()
    without = replace(whole, policies={key: each for key, each in whole.policies.items() if key != resource})

    problems = without.find_problems()
    assert problems
    assert all("may not" in each or "may make no token" in each for each in problems)


def push(deployment: Deployment) -> dict[str, Any]:
    found: dict[str, Any] = deployment.subscriptions[0]["pushConfig"]
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: push(each).update(pushEndpoint="https://nowhere"), "which is no function's address"),
        (lambda each: push(each)["oidcToken"].update(audience=URI.format("sweep")), "is not the address"),
        (lambda each: push(each)["oidcToken"].pop("audience"), "the audience '' is not the address"),
        (lambda each: push(each)["oidcToken"].update(serviceAccountEmail=SCHEDULER), "may not call collect"),
        (lambda each: each.jobs[0]["httpTarget"]["oidcToken"].update(audience="x"), "a-job: the audience 'x'"),
        (lambda each: each.jobs[0].pop("httpTarget"), "sweep: nothing calls it"),
        (lambda each: each.sinks[0].update(destination="pubsub.googleapis.com/elsewhere"), "publish to elsewhere"),
        (
            lambda each: each.subscriptions[0]["deadLetterPolicy"].update(deadLetterTopic="other"),
            "may not publish to other",
        ),
        (
            lambda each: each.functions[0]["serviceConfig"]["environmentVariables"].update(
                TPU_PROVISIONER_DEAD_LETTER_TOPIC="projects/a-project/topics/other"
            ),
            "collect@a-project.iam.gserviceaccount.com may not publish to projects/a-project/topics/other",
        ),
        (
            lambda each: each.functions[1]["serviceConfig"]["environmentVariables"].update(
                TPU_PROVISIONER_MOD="x"
            ),
            "sweep: its start stops: settings are wrong: - TPU_PROVISIONER_MOD",
        ),
    ],
)
def test_each_contradiction_is_named(change: Callable[[Deployment], None], message: str) -> None:
    changed = copy.deepcopy(a_deployment())
    change(changed)

    assert message in "\n".join(changed.find_problems())
