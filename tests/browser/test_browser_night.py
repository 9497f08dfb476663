"""Six broken states of a local stack: the board's first screen and one command say the cause."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from cli.access.operator_access import open_deployment
from cli.board.listening import listening
from cli.board.site import Site
from demo.stack.commands import StackSettings
from demo.stack.operator_environment import operator_environment
from demo.stack.stack import Stack
from shared.core import labels
from standins.processes.kubeconfig import open_client
from standins.processes.stand_ins import PATIENCE_SECONDS
from tests.cli.cli_world import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
PICTURES = os.environ.get("BOARD_SCREENSHOTS")
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = " ".join((DOCS / "night.md").read_text().split())
EXAMPLE = DOCS.parent / "examples" / "v6e-two-slices.yaml"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
SCREEN: ViewportSize = {"width": 800, "height": 600}
BYTES_MAX = 150_000


@dataclass(frozen=True, kw_only=True)
class State:
    """One broken state: how it is made, and the words that name its cause."""

    name: str
    """Of its JobSet and its picture."""
    words: tuple[str, ...]
    """On the board, in the answer of the command, and on the page."""
    fault: dict[str, Any] = field(default_factory=dict)
    """Of the fake GKE."""
    topology: str = "4x4"
    annotations: dict[str, str] = field(default_factory=dict)
    kill: str = ""
    """A process of the stack."""
    command: str = ""

    def __post_init__(self) -> None:
        if not self.command:
            object.__setattr__(self, "command", f"why default/{self.name}")


def refuse_creates(reason: str, text: str) -> dict[str, Any]:
    fault = {"switch": "fail_sync", "method": "CreateNodePool", "count": None, "code": "PERMISSION_DENIED"}
    return fault | {"reason": reason, "text": text}


QUOTA = "Insufficient regional quota to satisfy request: resource TPUS_PER_TPU_FAMILY"
RIGHT = 'Required "container.clusters.update" permission(s)'
STATES = (
    State(
        name="quota",
        fault=refuse_creates("INSUFFICIENT_QUOTA_REGIONAL", QUOTA),
        words=("Insufficient regional quota to satisfy request", "quota_exceeded"),
    ),
    State(
        name="stockout",
        fault={"switch": "outcome", "kind": "stockout", "seconds": 120},
        words=("no capacity in us-east5-b", "stockout"),
    ),
    State(name="denied", fault=refuse_creates("IAM_PERMISSION_DENIED", RIGHT), words=(RIGHT, "permission_denied")),
    State(
        name="topology",
        topology="4x5",
        words=("not a topology of ct6e-standard-4t (got '4x5')", "shape_unsupported"),
    ),
    State(
        name="typo",
        annotations={labels.DISABLE_AUTOPROVISIONING.replace("ning", "nning"): "true"},
        words=("disable-autoprovisionning: is an unknown key", "request_not_allowed"),
    ),
    State(name="exporter", kill="exporter", words=("there is no answer at",), command="doctor"),
)
"""The last one kills a process for good."""
SEEN = """(words) => {
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const at = texts.currentNode.data.indexOf(words);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(texts.currentNode, at);
    range.setEnd(texts.currentNode, at + words.length);
    const { top, bottom } = range.getBoundingClientRect();
    const box = texts.currentNode.parentElement.getBoundingClientRect();
    if (top >= Math.max(0, box.top - 1) && bottom <= Math.min(innerHeight, box.bottom + 1)) return true;
  }
  return false;
}"""
"""Whether the words are where nobody needs to scroll, and no box cuts them off."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("night"), StackSettings(speed=60.0, restarts=False)) as stack:
        yield stack


@pytest.fixture
def broken(stack: Stack, request: pytest.FixtureRequest) -> Iterator[State]:
    """The stack in one of the states, with a JobSet of one slice that asks for a pool."""
    state: State = request.param
    faults = f"{stack.addresses.gke_rest}/admin/faults"
    if state.fault:
        httpx.post(faults, json=state.fault).raise_for_status()
    if state.kill:
        stack.kill(state.kill)
    with open_client(stack.addresses.kubeconfig) as client:
        client.post(JOBSETS, json=ask_for_a_pool(state)).raise_for_status()
        yield state
        client.delete(f"{JOBSETS}/{state.name}").raise_for_status()
    httpx.delete(faults).raise_for_status()


def ask_for_a_pool(state: State) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    body["metadata"]["name"] = state.name
    (job,) = body["spec"]["replicatedJobs"]
    job["replicas"] = 1
    pods = job["template"]["spec"]["template"]
    pods["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = state.topology
    pods["metadata"] = {"annotations": {"local.tpu-provisioner/run-seconds": "36000", **state.annotations}}
    return body


@pytest.mark.parametrize("broken", STATES, indirect=True, ids=lambda state: state.name)
def test_the_first_screen_and_one_command_say_the_cause(stack: Stack, broken: State, browser: Browser) -> None:
    environ = operator_environment(stack.layout, stack.settings, stack.addresses)
    context = browser.new_context(viewport=SCREEN, color_scheme="light")
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    with listening(site := Site(open_deployment(environ), every=0.5)):
        page = context.new_page()
        page.goto(site.address)
        page.locator("#lanes .name", has_text=f"{broken.name}-slice-0").wait_for()
        for words in broken.words:
            page.wait_for_function(SEEN, arg=words)
        if PICTURES:
            page.screenshot(path=find_picture(broken))
    context.close()
    answer = run(*broken.command.split(), environ=environ)

    assert answer.exit_code == 1, answer.output
    for words in broken.words:
        assert words in answer.stdout


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_the_page_has_the_picture_the_command_and_its_words(state: State) -> None:
    assert f"$ tpu-provisioner {state.command} …" in PAGE
    assert f"({find_picture(state).relative_to(DOCS)})" in PAGE
    assert find_picture(state).stat().st_size < BYTES_MAX
    for words in state.words:
        assert words in PAGE


def find_picture(state: State) -> Path:
    return DOCS / "pictures" / f"night-{state.name}.png"
