"""`plan` refuses what Kubernetes refuses later, in the API server's own words."""

import pytest

from tests.cli.cli_world import run
from tests.field.planned import INPUTS, plan_needs

NAME = "refused-by-kubernetes.yaml"
NO_LIMIT = "Limit must be set for non overcommitable resources"
POD = "template.spec.containers[0].resources"
WORDS = {
    "requests-only": f"spec.{POD}.requests.google.com/tpu: {NO_LIMIT} (got '4'); valid: limits.google.com/tpu: 4",
    "two-of-four": f"spec.{POD}.requests.google.com/tpu: must be equal to google.com/tpu limit of 4 (got '2')",
    "head-in-gigabytes": f"spec.headGroupSpec.{POD}.limits.memory: quantity '16GB' is not valid: quantities",
    "more-than-its-limit": "requests.memory: must be less than or equal to memory limit of 2G (got '2Gi')",
    "space-in-amount": "requests.cpu: quantity '500 m' is not valid",
    "network-without-limit-xxxxx": f"requests.networking.gke.io.networks/vpc1: {NO_LIMIT}",
}


@pytest.mark.parametrize("workload", WORDS)
def test_a_refusal_has_the_words_of_the_api_server(workload: str) -> None:
    need = plan_needs(NAME)[workload]

    assert WORDS[workload] in need["message"]
    assert (need["decision"], need["reason"], need["pools"]) == ("refuse", "manifest_invalid", 0)


def test_one_amount_written_in_two_ways_is_accepted_and_the_others_end_with_1() -> None:
    assert plan_needs(NAME)["written-in-two-ways"]["decision"] == "create"
    assert run("plan", str(INPUTS / NAME)).exit_code == 1
