"""What is built.

The products, their binaries, and the key that says whether a build is still right.

Versions stand in `go/<product>/go.mod` and nowhere else; this module reads them. It runs nothing.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GO_FOLDER = Path(__file__).resolve().parent / "go"
MODULE_FILES = ("go.mod", "go.sum")
GO_MINIMUM = (1, 25)
"""The `go` line of JobSet's own go.mod; an older Go refuses it."""
_VERSION_PACKAGE = "k8s.io/component-base/version"


class RecipeBroken(Exception):
    """A go.mod or go.sum of ours is missing or does not name what it should.

    The text says which.
    """


class UnknownAddition(Exception):
    """There is no further controller of a name; the text names those that there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One program and the Go package that it is compiled from."""

    name: str
    package: str
    cold_seconds: int
    """What it took on two cores with nothing cached, in this order; only for the forecast that
    people see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One folder under `go/`.

    Dependencies of different products differ, so each has its own go.mod.
    """

    name: str
    module: str
    binaries: tuple[Binary, ...]
    manifests: tuple[str, ...] = ()
    """Folders of the module whose YAML files are kept beside the binaries."""
    tags: str = ""
    """Go's build tags, which leave parts of the module out."""

    @property
    def folder(self) -> Path:
        """The folder of its go.mod."""
        return GO_FOLDER / self.name

    @property
    def version(self) -> str:
        """Return the pinned version, for example ``v1.34.4``.

        Raises RecipeBroken: its go.mod does not require the module.
        """
        text = _read(self.folder / "go.mod").decode()
        found = re.search(rf"^(?:require)?\s+{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise RecipeBroken(f"{self.folder / 'go.mod'}: no require of {self.module}")
        return found[1]

    def link_flags(self) -> str:
        """Return the linker's flags.

        No debug symbols, and for Kubernetes the version that it says it is.

        Without the stamp Kubernetes calls itself v0.0.0, and kubectl warns about the difference
        (https://kubernetes.io/releases/version-skew-policy/).
        """
        flags = "-s -w"
        if self.module == "k8s.io/kubernetes":
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            stamps = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += "".join(f" -X {_VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())
        return flags


def list_binaries(products: Iterable[Product]) -> tuple[str, ...]:
    """Return the names of all programs of some products, in the order of their building."""
    return tuple(binary.name for product in products for binary in product.binaries)


def _one_program(
    name: str,
    module: str,
    *,
    cold_seconds: int,
    package: str = "",
    manifests: tuple[str, ...] = (),
    tags: str = "",
) -> Product:
    """Return a product whose only program has its name; `package` is within the module."""
    binary = Binary(name=name, package=module + package, cold_seconds=cold_seconds)
    return Product(name=name, module=module, binaries=(binary,), manifests=manifests, tags=tags)


_KUBERAY = "github.com/ray-project/kuberay/ray-operator"
_COMPONENTS = ("config/components/crd/bases", "config/components/webhook", "config/components/rbac")
_KUBERNETES = "k8s.io/kubernetes"
PRODUCTS = (
    _one_program("etcd", "go.etcd.io/etcd/server/v3", cold_seconds=20),
    _one_program("jobset", "sigs.k8s.io/jobset", cold_seconds=106, manifests=_COMPONENTS),
    Product(
        name="kubernetes",
        module=_KUBERNETES,
        binaries=tuple(
            Binary(name=name, package=f"{_KUBERNETES}/cmd/{name}", cold_seconds=seconds)
            for name, seconds in (("kube-apiserver", 370), ("kube-controller-manager", 88), ("kube-scheduler", 6))
        ),
    ),
)
"""The base: what every control plane runs."""
ADDITIONS = (
    *(
        _one_program(name, _KUBERAY, cold_seconds=90, manifests=("config/crd/bases", "config/rbac"))
        for name in ("kuberay-1.5", "kuberay-1.6")
    ),
    _one_program(
        "lws-0.7",
        "sigs.k8s.io/lws",
        package="/cmd",
        cold_seconds=150,
        manifests=("config/crd/bases", "config/rbac", "config/webhook"),
    ),
    _one_program("kueue-0.15", "sigs.k8s.io/kueue", package="/cmd/kueue", cold_seconds=210, manifests=_COMPONENTS),
    _one_program(
        "autoscaler-1.33",
        "k8s.io/autoscaler/cluster-autoscaler",
        cold_seconds=240,
        # One of some thirty clouds: what another process keeps (`standins/autoscaler/upstream.py`).
        tags="externalgrpc",
    ),
)
"""Further controllers: each has a build of its own, made only when it is asked for."""


def find_additions(names: Iterable[str]) -> tuple[Product, ...]:
    """Return the further controllers of these names, each once, in the order of `ADDITIONS`.

    Raises UnknownAddition: there is none of that name; the text names those that there are.
    """
    wanted = set(names)
    if unknown := sorted(wanted - {product.name for product in ADDITIONS}):
        valid = ", ".join(product.name for product in ADDITIONS)
        raise UnknownAddition(f"controller: {', '.join(unknown)} is not valid; valid: {valid}")
    return tuple(product for product in ADDITIONS if product.name in wanted)


def hash_sources(products: tuple[Product, ...] = PRODUCTS) -> str:
    """Return 16 hexadecimal digits over all go.mod and go.sum files and the linker's flags.

    Raises RecipeBroken: a file is missing.
    """
    digest = hashlib.sha256()
    for product in products:
        for name in MODULE_FILES:
            digest.update(f"{product.name}/{name}\n".encode())
            digest.update(_read(product.folder / name))
        digest.update(f"{product.link_flags()}\n{product.binaries}\n{product.manifests}\n".encode())
        digest.update(product.tags.encode())
    return digest.hexdigest()[:16]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecipeBroken(f"{path}: {error.strerror}; restore it from the repository") from error
