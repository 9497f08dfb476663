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
from standins.kit.processes import PATIENCE_SECONDS, Child, Command, wait_until
from tests.contract.stand_ins import serve_google
from tests.exporter.exporter_builders import CLUSTER, TOPIC, a_jobset, a_leader, completed
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exporter")


@pytest.fixture(scope="module")
def pubsub() -> Iterator[dict[str, str]]:
    with serve_google(pubsub=True) as ports:
        yield ports


@pytest.fixture
def start(
    kubernetes: ScriptedKubernetes, pubsub: dict[str, str], folder: Path
) -> Iterator[Callable[..., Process]]:
    kubernetes.lists["pods"].append(Listing((a_leader("p0"),)))
    kubernetes.watches["pods"].append(Stream((event("ADDED", a_leader("p1", "102")),)))
    kubernetes.lists["jobsets"].append(Listing((a_jobset("j0", conditions=(completed(),)),)))
    running: list[Process] = []

    def start_one(pubsub_host: str = pubsub["grpc"], **environ: str) -> Process:
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
        running.append(Process(folder, {"PUBSUB_EMULATOR_HOST": pubsub_host, **prefixed}))
        return running[-1]

    yield start_one
    for process in running:
        process.kill()


def create_topic(pubsub: dict[str, str], topic: str) -> str:
    httpx.put(f"{pubsub['rest']}/v1/{topic}", json={}, timeout=30).raise_for_status()
    return topic


def stored(pubsub: dict[str, str], topic: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{pubsub['rest']}/admin/messages", params={"topic": topic}, timeout=30)
    found: list[dict[str, Any]] = answer.raise_for_status().json()["messages"]
    return found


def test_it_publishes_what_stands_and_what_comes_and_ends_in_order(
    start: Callable[..., Process], pubsub: dict[str, str], kubernetes: ScriptedKubernetes
) -> None:
    topic = create_topic(pubsub, "projects/p/topics/whole-life")
    exporter = start(TOPIC=topic)
    wait_until(lambda: len(exporter.messages("published")) == 3)

    events = [parse_message(base64.b64decode(each["data"]), each["attributes"]) for each in stored(pubsub, topic)]
    assert {(each.subject.uid, each.cause) for each in events} == {
        ("jobset-1", "p0"),
        ("jobset-1", "p1"),
        ("j0", "Completed"),
    }
    assert {each.cluster for each in events} == {CLUSTER}
    published = {each["event_id"]: each for each in exporter.messages("published")}
    assert published.keys() == {each.id for each in events}
    subjects = {each["subject"] for each in published.values()}
    assert subjects == {each["attributes"]["ce-subject"] for each in stored(pubsub, topic)}

    # What is listed is published one by one, and only then the listing is over.
    wait_until(lambda: json.loads(exporter.ask("/readyz"))["ready"])
    assert json.loads(exporter.ask("/healthz"))["alive"]
    shown = exporter.ask("/metrics")
    assert "tpu_provisioner_exporter_leaders_unschedulable 2.0" in shown
    assert "tpu_provisioner_exporter_is_leader 1.0" in shown
    assert f'tpu_provisioner_exporter_build_info{{version="{VERSION}"}} 1.0' in shown

    exporter.end(PATIENCE_SECONDS)
    assert exporter.exit_code == 0
    (ended,) = exporter.messages("ended")
    assert (ended["events_left_to_the_next_start"], ended["lease_released"]) == (0, True)
    assert kubernetes.leases["tpu-provisioner-exporter"]["spec"]["holderIdentity"] == ""


def test_a_standby_neither_watches_nor_publishes_until_the_leader_ends(
    start: Callable[..., Process], pubsub: dict[str, str], kubernetes: ScriptedKubernetes
) -> None:
    topic = create_topic(pubsub, "projects/p/topics/handover")
    leader = start(TOPIC=topic, LEASE_SECONDS="15")
    wait_until(lambda: len(leader.messages("published")) == 3)
    standby = start(TOPIC=topic, LEASE_SECONDS="15")
    wait_until(lambda: json.loads(standby.ask("/readyz"))["role"] == "standby")
    assert len(kubernetes.asked("pods", watch=False)) == 1
    leader.end(PATIENCE_SECONDS)
    assert leader.exit_code == 0
    wait_until(lambda: len(standby.messages("published")) == 3)
    # What stands is reported again under the same ids: harmless to whoever reads the world.
    assert len({each["attributes"]["ce-id"] for each in stored(pubsub, topic)}) == 3
    assert len(stored(pubsub, topic)) == 6


def test_wrong_settings_end_it_with_code_2_and_the_list(start: Callable[..., Process]) -> None:
    exporter = start(TOPIC="x", LEASE_SECONDS="1000", SUBJECT="?")
    wait_until(lambda: exporter.exit_code is not None)
    assert exporter.exit_code == 2
    assert [each["message"].split(":")[0] for each in exporter.records()] == [
        "TPU_PROVISIONER_SUBJECT",
        "TPU_PROVISIONER_TOPIC",
        "TPU_PROVISIONER_LEASE_SECONDS",
    ]
