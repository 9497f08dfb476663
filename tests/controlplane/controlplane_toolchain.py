"""A stand-in for the Go command, so that building is tested in milliseconds and its failures on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from local.controlplane.recipe import ADDITIONS, PRODUCTS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SCRIPT = """#!/bin/sh
echo "$*" >> "$FAKE_GO_CALLS"
case "$1" in
  env) printf '%s\\nlinux\\namd64\\n' "$FAKE_GO_VERSION" ;;
  list) echo "$FAKE_GO_MODULE" ;;
  build)
    for last; do :; done
    while [ "$1" != "-o" ]; do shift; done
    echo "example.com/a/package"
    if [ -e "$FAKE_GO_FAILS" ]; then echo "cannot find main module" >&2; exit 3; fi
    if [ -e "$FAKE_GO_HANGS" ]; then echo $$ > "$FAKE_GO_HANGS"; exec sleep 600; fi
    mkdir -p "$(dirname "$2")"
    printf '#!/bin/sh\\necho %s\\n' "$last" > "$2"
    chmod +x "$2"
    ;;
esac
"""
MANIFESTS = sorted({folder for product in (*PRODUCTS, *ADDITIONS) for folder in product.manifests})


@dataclass(frozen=True)
class FakeGo:
    folder: Path
    cache: Path

    @property
    def builds(self) -> int:
        """How many programs were compiled so far."""
        calls = self.folder / "calls"
        return sum(line.startswith("build ") for line in calls.read_text().splitlines()) if calls.exists() else 0

    def fail(self) -> None:
        (self.folder / "fails").touch()

    def mend(self) -> None:
        (self.folder / "fails").unlink()

    @property
    def hang(self) -> Path:
        """The file that makes a build hang; the compiler then writes its process id into it."""
        return self.folder / "hangs"


def install_fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    """Put the stand-in first on the path."""
    folder = tmp_path / "go"
    folder.mkdir()
    script = folder / "go"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    module = tmp_path / "module"
    for each in MANIFESTS:
        (module / each).mkdir(parents=True)
        manifest = module / each / "thing.yaml"
        manifest.write_text("kind: Thing\n")
        manifest.chmod(0o444)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_GO_CALLS", str(folder / "calls"))
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.26.0")
    monkeypatch.setenv("FAKE_GO_MODULE", str(module))
    monkeypatch.setenv("FAKE_GO_FAILS", str(folder / "fails"))
    monkeypatch.setenv("FAKE_GO_HANGS", str(folder / "hangs"))
    return FakeGo(folder, tmp_path / "cache")
