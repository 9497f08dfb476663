"""A command's deployment, in this order: options, environment, file, local stack, kubeconfig."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.access.config_file import find_file, list_keys
from cli.access.contexts import Choice, find_local_stack, resolve
from cli.exit_codes import BadInput
from demo.stack.layout import Layout
from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, run

ROOT = Path(__file__).resolve().parents[2]
OTHER = "projects/p/locations/us-east5/clusters/d"
CLUSTERS = {"TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": NOWHERE}, OTHER: {"endpoint": NOWHERE}})}


def a_kubeconfig(folder: Path, *names: str, current: str = "") -> str:
    """Write a kubeconfig with these contexts and return its path."""
    body = {
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in names],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(body))
    return str(path)


GKE, GKE_2, KIND = "gke_p_us-east5_c", "gke_q_us-east5-b_c", "kind-here"
ZONAL = "projects/q/locations/us-east5-b/clusters/c"


def ask(environ: dict[str, str], **choice: str) -> tuple[dict[str, Any], str, list[str]]:
    """Return the chosen clusters, the chosen context and what was told."""
    told: list[str] = []
    found = resolve(dict(os.environ) | environ, Choice(**choice), say=told.append)
    return json.loads(found.get("TPU_PROVISIONER_CLUSTERS", "{}")), found.get("TPU_PROVISIONER_CONTEXT", ""), told


@pytest.mark.parametrize(
    ("current", "choice", "clusters", "context"),
    [
        (GKE, {}, [CLUSTER], GKE),
        (KIND, {}, [], ""),
        ("", {}, [], ""),
        (KIND, {"context": GKE_2}, [ZONAL], GKE_2),
        (KIND, {"cluster": "c", "project": "q"}, [ZONAL], GKE_2),
        (KIND, {"cluster": CLUSTER}, [CLUSTER], GKE),
        (GKE, {"project": "q"}, [ZONAL], GKE_2),
        (GKE, {"context": KIND, "cluster": OTHER}, [OTHER], KIND),
    ],
)
def test_a_context_of_the_kubeconfig_is_a_deployment(
    tmp_path: Path, current: str, choice: dict[str, str], clusters: list[str], context: str
) -> None:
    path = a_kubeconfig(tmp_path, GKE, GKE_2, KIND, current=current)

    found, chosen, told = ask({"KUBECONFIG": path}, **choice)

    assert (list(found), chosen) == (clusters, context)
    assert [each["endpoint"] for each in found.values()] == [f"https://{context}.example"] * len(clusters)
    assert len(told) == len(clusters)


def test_the_environment_wins_over_the_file_and_the_kubeconfig(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path, GKE_2, current=GKE_2)
    assert run("config", "set", "context", GKE_2).exit_code == 0

    assert list(ask({"KUBECONFIG": path})[0]) == [ZONAL]
    assert list(ask({"KUBECONFIG": path} | CLUSTERS)[0]) == [CLUSTER, OTHER]
    assert list(ask({"KUBECONFIG": path} | CLUSTERS, cluster="d")[0]) == [OTHER]
    assert list(ask({"KUBECONFIG": path} | CLUSTERS, context=GKE_2)[0]) == [ZONAL]


def test_the_local_stack_is_found_from_a_folder_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cli.access.contexts.LOCAL_STACK", Path(".local/operator.json"))
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    layout = Layout(tmp_path / ".local")
    layout.home.mkdir()
    layout.operator.write_text(json.dumps(CLUSTERS))
    path = a_kubeconfig(tmp_path, GKE_2, current=GKE_2)

    found, _, told = ask({"KUBECONFIG": path})

    assert (list(found), told) == ([CLUSTER, OTHER], [f"deployment: the local stack of {tmp_path}"])
    assert find_local_stack(tmp_path / "a") == layout.operator
    assert list(ask({"KUBECONFIG": path}, context=GKE_2)[0]) == [ZONAL]


def test_a_kept_value_is_listed_got_and_taken_away() -> None:
    assert run("config", "set", "zone", "us-east5-b").exit_code == 0
    assert run("config", "set", "limit_chips", "16").exit_code == 0
    assert run("config", "set", "lease_name", "😀").exit_code == 0

    listed = run("config", "list")

    path = find_file(os.environ)
    shown = "lease_name = 😀\nlimit_chips = 16\nzone = us-east5-b\n"
    assert (listed.stdout, listed.stderr) == (shown, f"# {path}\n")
    assert run("config", "get", "zone").stdout == "us-east5-b\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert resolve(os.environ, Choice(), say=print)["TPU_PROVISIONER_LIMIT_CHIPS"] == "16"
    assert run("config", "unset", "zone").exit_code == 0
    assert run("config", "get", "zone").exit_code == 2


def test_a_kept_zone_is_that_of_the_chosen_context(tmp_path: Path) -> None:
    run("config", "set", "zone", "us-east5-b")
    path = a_kubeconfig(tmp_path, GKE, current=GKE)

    (entry,) = ask({"KUBECONFIG": path}, context=GKE)[0].values()

    assert entry["zone"] == "us-east5-b"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("config", "set", "limit_chip", "16"), "did you mean limit_chips?"),
        (("config", "set", "TPU_PROVISIONER_ZONE", "z"), "did you mean zone?"),
        (("config", "set", "limit_chips", "many"), "valid: a number from 0"),
        (("config", "set", "zone", ""), "zone: is empty; valid: a name"),
        (("config", "set", "zone", "a\nb"), "zone: is not one line"),
        (("config", "set", "context", "a\x7f"), "context: is not one line"),
        (("config", "set", "context", "\ud83d"), "context: is not one line"),
        (("config", "get", "zone"), "zone: is not set in"),
        (("--context", "none", "status"), "--context: is not in"),
        (("--context", KIND, "status"), "--context: does not name a cluster of GKE (got 'kind-here')"),
        (("--cluster", "c", "status"), "--cluster=c: names several clusters; valid: projects/p/"),
        (("--project", "r", "status"), "--project=r: is not a cluster of"),
    ],
)
def test_what_names_no_deployment_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    environ = {"KUBECONFIG": a_kubeconfig(tmp_path, GKE, GKE_2, KIND)}

    result = run(*arguments, environ=environ)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize("text", ["zone", "zone = 1", 'colour = "red"', "\x00", "\xff"])
def test_a_file_that_is_not_ours_is_refused_by_name(text: str) -> None:
    path = find_file(os.environ)
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))

    result = run("status")

    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path}: ")
    assert "; " in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        *("[1]", "contexts: 1", "contexts: [{}]", "\tx: [", "clusters: [{name: a}]", "a: \x01"),
        "contexts: [{name: a, context: {cluster: [a]}}]",
        "contexts: [{name: 2026-13-45, context: {}}]",
    ],
)
def test_a_kubeconfig_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(BadInput, match=r"kubeconfig .*: is not valid"):
        ask({"KUBECONFIG": str(path)})


def test_every_setting_can_be_kept_but_for_the_choices() -> None:
    assert {"topic", "clusters", "limit_chips", "zone"} <= set(list_keys())
    assert len(list_keys()) == len(set(list_keys()))


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_installs(shell: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cli", "--install-completion", shell]
    # Else typer asks which shell started this test.
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}

    output = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)

    assert f"{shell} completion installed in" in output.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "tpu-provisioner" in path.read_text()]
