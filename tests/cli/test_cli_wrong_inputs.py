"""Wrong arguments, variables and files: one clear error, exit code 2, and no library is quoted."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, run

if TYPE_CHECKING:
    from pathlib import Path

CLUSTERS = {"TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": NOWHERE}})}
LIBRARIES = re.compile(
    r"Traceback|msgspec|pydantic|Expected `|\bErrno\b|HTTPS?Connection|Max retries|yaml\.|while (parsing|scanning)"
    r"|JSON is malformed|truncated|Input should|"
    r"tomllib|TypeError|KeyError|ValueError|object at 0x|Line \d+, Column"
)
SAYS_VALID = re.compile(
    r"valid: |did you mean|is not one of|Missing argument|No such (command|option)|does not exist"
)

ARGUMENTS = [
    (),
    ("nonsense",),
    ("status", "-o", "xml"),
    ("status", "--json", "-o", "wide"),
    ("status", "--watch", "--json"),
    ("status", "--nonsense"),
    ("why",),
    ("why", "Not A Name"),
    ("why", "a/b", "-n", "c"),
    ("why", "a", "--since", "soon"),
    ("why", "a", "--since", "2999-01-01T00:00:00Z"),
    ("why", "a", "--follow", "--json"),
    ("logs", "nonsense"),
    ("logs", "--severity", "loud"),
    ("logs", "--since", "soon"),
    ("logs", "--max", "0"),
    ("logs", "--max", "many"),
    ("logs", "-n", "Not A Name"),
    ("logs", "--follow", "--json"),
    ("board", "--port", "http"),
    ("board", "--port", "65536"),
    ("board", "--every", "often"),
    ("board", "--every", "0"),
    ("explain", "nonsense"),
    ("explain", ""),
    ("replay",),
    ("replay", "--since", "1h", "--snapshot", "x"),
    ("replay", "--dead-letters", "--max", "0"),
    ("replay", "--dead-letters", "--max", "many"),
    ("replay", "--dead-letters", "--function", "sweep"),
    ("replay", "--dead-letters", "--reason", "x"),
    ("letters", "discard"),
    ("letters", "show"),
    ("config", "set", "nonsense", "1"),
    ("config", "set", "mode", "off"),
    ("config", "set", "clusters", "{"),
    ("config", "get", "zone"),
    ("--cluster", "nonsense", "status"),
    ("--context", "nonsense", "status"),
    ("plan", "no-such-folder/*.yaml"),
    ("plan", "-", "--cluster", "c"),
    ("plan", "-", "--diff"),
]


def check(code: int, said: str) -> None:
    assert code == 2, said
    assert LIBRARIES.search(said) is None, said
    assert SAYS_VALID.search(said), said


@pytest.mark.parametrize("arguments", ARGUMENTS[1:], ids=" ".join)
def test_a_wrong_argument_says_what_is_valid(arguments: tuple[str, ...]) -> None:
    without = arguments[0] == "plan" or arguments[0].startswith("--context")
    result = run(*arguments, environ={} if without else CLUSTERS, given="")

    check(result.exit_code, result.stderr)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLUSTERS", ""),
        ("CLUSTERS", "{"),
        ("CLUSTERS", "[]"),
        ("CLUSTERS", "{}x"),
        ("CLUSTERS", '{"c": {"endpoint": "https://e"}}'),
        ("CLUSTERS", '{"projects/p/locations/l/clusters/c": {"endpoint": "e"}}'),
        ("CLUSTERS", '{"projects/p/locations/l/clusters/c": {"endpoint": 1}}'),
        ("CLUSTERS", '{"projects/p/locations/l/clusters/c": {"endpont": "https://e"}}'),
        ("CLUSTERS", '{"projects/p/locations/l/clusters/c": {}}'),
        ("SUBSCRIPTIONS", "{"),
        ("SUBSCRIPTIONS", '{"provision": 1}'),
        ("SUBSCRIPTIONS", "[1]"),
        ("FUNCTION_URIS", "{'sweep': 'x'}"),
        ("MODE", "off"),
        ("LIMIT_CHIPS", "many"),
        ("CREDENTIALS", "mine"),
        ("KINDS", "JobSets"),
        ("KUBECONFIG", "/no/such/file"),
        ("GKE_ENDPOINT", "container.googleapis.com"),
        ("LOGGING_ENDPOINT", "logging"),
        ("EXPORTER_URL", "localhost:8080"),
        ("TOPIC", "events"),
        ("TOPPIC", "projects/p/topics/t"),
    ],
)
def test_a_wrong_variable_says_what_is_valid(name: str, value: str) -> None:
    result = run("doctor", environ=CLUSTERS | {f"TPU_PROVISIONER_{name}": value})

    check(result.exit_code, result.stderr)
    assert f"TPU_PROVISIONER_{name}" in result.stderr or "kubeconfig /no/such/file" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "\x00",
        "- 1",
        "kind: 1",
        "kind: JobSet\napiVersion: jobset.x-k8s.io/v1alpha2\nmetadata: {name: 1}",
        "kind: JobSet\napiVersion: jobset.x-k8s.io/v1alpha2\nmetadata: {name: a}\nspec: []",
    ],
)
def test_a_wrong_manifest_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)

    result = run("plan", str(path))

    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert LIBRARIES.search(result.stderr) is None, result.stderr
