"""Does a whole exporter process do its part?

It is a subprocess, between a scripted API server and the local Pub/Sub.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared import VERSION
from shared.model.messages import parse_message
from standins.google.tests.fakegke_worlds import serving_google
from standins.kit.processes import PATIENCE_SECONDS, Child, Command, wait_until
from tests.contract.gke_world import ask
from tests.exporter.exporter_builders import CLUSTER, COMPLETED, TOPIC, a_jobset, a_leader
from tests.exporter.scripted_kubernetes import Listing, ScriptedKubernetes, Stream, event
from tests.log_records import read_records

ROOT = Path(__file__).parents[2]


class Process(Child):
    """An exporter, whose log lines are read as records."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        log = folder / f"{len(list(folder.glob('*.log')))}.log"
        arguments = (sys.executable, "-m", "exporter")
        super().__init__(Command(name="exporter", arguments=arguments, folder=ROOT, environment=environ), log)

    def records(self) -> list[dict[str, Any]]:
        return read_records(self.log, among_text=True)

    def messages(self, text: str) -> list[dict[str, Any]]:
        return [record for record in self.records() if record["message"] == text]

    def ask(self, path: str) -> str:
        """Return the page of the health server."""
        wait_until(lambda: self.messages("listening"))
        return httpx.get(self.messages("listening")[0]["url"] + path, timeout=30).text


@pytest.fixture
def pubsub() -> Iterator[dict[str, str]]:
    with serving_google(pubsub=True) as google:
        yield google.ports


@pytest.fixture
def start(
    kubernetes: ScriptedKubernetes, pubsub: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., Process]]:
    kubernetes.lists["pods"].append(Listing((a_leader("p0"),)))
    kubernetes.watches["pods"].append(Stream((event("ADDED", a_leader("p1", "102")),)))
    kubernetes.lists["jobsets"].append(Listing((a_jobset("j0", conditions=(COMPLETED,)),)))
    running: list[Process] = []

    def start_one(**environ: str) -> Process:
        settings = {
            "CLUSTER": CLUSTER,
            "TOPIC": TOPIC,
            "ENDPOINT": kubernetes.url,
            "LEASE_NAMESPACE": "ns",
            "HTTP_PORT": "0",
            # The scripted API knows paths and no selectors: one watch of pods, one of workloads.
            "KINDS": "JobSet",
        } | environ
        prefixed = {f"TPU_PROVISIONER_{name}": value for name, value in settings.items()}
        running.append(Process(tmp_path, {"PUBSUB_EMULATOR_HOST": pubsub["grpc"], **prefixed}))
        return running[-1]

    yield start_one
    for process in running:
        process.kill()


def stored(pubsub: dict[str, str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = ask("GET", f"{pubsub['rest']}/admin/messages?topic={TOPIC}")["messages"]
    return messages


def test_it_publishes_what_stands_and_what_comes_until_another_one_takes_over_or_the_lease_is_lost(
    start: Callable[..., Process], pubsub: dict[str, str], kubernetes: ScriptedKubernetes
) -> None:
    ask("PUT", f"{pubsub['rest']}/v1/{TOPIC}", {})
    exporter = start()
    wait_until(lambda: len(exporter.messages("published")) == 3)

    messages = stored(pubsub)
    events = [parse_message(base64.b64decode(each["data"]), each["attributes"]) for each in messages]
    causes = {("jobset-1", "p0"), ("jobset-1", "p1"), ("j0", "Completed")}
    assert {(each.subject.uid, each.cause) for each in events} == causes
    assert {each.cluster for each in events} == {CLUSTER}
    published = {(each["event_id"], each["subject"]) for each in exporter.messages("published")}
    assert published == {(each["attributes"]["ce-id"], each["attributes"]["ce-subject"]) for each in messages}

    # What is listed is published one by one, and only then the listing is over.
    wait_until(lambda: json.loads(exporter.ask("/readyz"))["ready"])
    assert json.loads(exporter.ask("/healthz"))["alive"]
    shown = exporter.ask("/metrics")
    gauges = ("leaders_unschedulable 2.0", "is_leader 1.0", f'build_info{{version="{VERSION}"}} 1.0')
    assert [each for each in gauges if f"tpu_provisioner_exporter_{each}" not in shown] == []

    standby, third = start(), start()
    wait_until(lambda: {json.loads(each.ask("/readyz"))["role"] for each in (standby, third)} == {"standby"})
    assert len(kubernetes.asked("pods", watch=False)) == 1
    third.end(PATIENCE_SECONDS)
    assert third.exit_code == 0

    exporter.end(PATIENCE_SECONDS)
    assert exporter.exit_code == 0
    (ended,) = exporter.messages("ended")
    assert (ended["events_left_to_the_next_start"], ended["lease_released"]) == (0, True)
    # What stands is reported again under the same ids: harmless to whoever reads the world.
    wait_until(lambda: len(standby.messages("published")) == 3)
    assert len({each["attributes"]["ce-id"] for each in stored(pubsub)}) == 3
    stolen = {"spec": {"holderIdentity": "thief"}, "metadata": {"resourceVersion": "0"}}
    kubernetes.leases["tpu-provisioner-exporter"] = stolen
    wait_until(lambda: standby.exit_code is not None)
    assert standby.exit_code == 1


def test_without_an_election_it_leads_at_once(start: Callable[..., Process], pubsub: dict[str, str]) -> None:
    ask("PUT", f"{pubsub['rest']}/v1/{TOPIC}", {})
    exporter = start(LEASE_SECONDS="0")
    wait_until(lambda: len(exporter.messages("published")) == 3)

    exporter.end(PATIENCE_SECONDS)

    assert (exporter.exit_code, exporter.messages("leading")[0]["election"]) == (0, False)


def test_wrong_settings_end_it_with_code_2_and_the_list(start: Callable[..., Process]) -> None:
    exporter = start(TOPIC="x", LEASE_SECONDS="1000", SUBJECT="?")
    wait_until(lambda: exporter.exit_code is not None)
    assert exporter.exit_code == 2
    assert [each["message"].split(":")[0] for each in exporter.records()] == [
        "TPU_PROVISIONER_SUBJECT",
        "TPU_PROVISIONER_TOPIC",
        "TPU_PROVISIONER_LEASE_SECONDS",
    ]
