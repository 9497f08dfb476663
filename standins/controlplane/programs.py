"""The table of programs, `programs.yaml`: what is built, and how each program is run.

It runs nothing. How a build is made is in `building`, a running control plane in `plane`.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]
AUTHORITY = "ca.crt"
"""The certificate that everybody trusts, by the name that webhook servers expect."""
_FOLDER = Path(__file__).resolve().parent
_MODULE_FILES = ("go.mod", "go.sum")
_NAME = re.compile(r"\{(\w+)\}")


class RecipeBroken(Exception):
    """A go.mod or go.sum of ours is missing or does not name what it should.

    The text says which.
    """


class UnknownController(ValueError):
    """There is no controller of a name, or two cannot run together; the text says what is valid."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One program of a module, and the process that it becomes."""

    package: str = ""  # within the module
    ports: tuple[str, ...] = ()
    ready: str = ""  # the address at which it says that it is ready
    arguments: tuple[str, ...] = ()
    settings: Json | None = None  # what it finds in a file of its own


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """An object which nobody stores, and the field of it that a webhook fills in."""

    body: Json
    filled: tuple[str, ...]


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller needs in the cluster, by folders of its module."""

    namespace: str
    """Two that are installed into the same one are versions of the same, and cannot run
    together."""
    account: str
    prefix: str = ""  # of the names of all its objects but the definitions
    definitions: str
    rights: str
    webhooks: str = ""
    patches: Mapping[str, Json] = {}
    """Fields of single webhooks that its kustomization sets, by the webhook's name."""
    probe: Probe | None = None
    secret: str = ""  # of the certificates, where it would make its own
    converts: frozenset[str] = frozenset()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of its module whose YAML files it needs."""
        return tuple(each for each in (self.definitions, self.rights, self.webhooks) if each)


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """One folder under `go/`.

    Dependencies of different products differ, so each has its own go.mod.
    """

    name: str
    module: str
    programs: Mapping[str, Program]
    controller: Controller | None = None
    optional: bool = False  # whether it is built and run only when it is asked for
    tags: str = ""  # go's build tags, which leave parts of the module out
    version_package: str = ""  # where the linker writes the version that the programs say they are

    @property
    def folder(self) -> Path:
        """The folder of its go.mod."""
        return _FOLDER / "go" / self.name

    @property
    def version(self) -> str:
        """Return the pinned version, for example ``v1.34.4``.

        Raises RecipeBroken: its go.mod does not require the module.
        """
        text = self._read("go.mod").decode()
        required = re.search(rf"^(?:require)?\s+{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if required is None:
            raise RecipeBroken(f"{self.folder / 'go.mod'}: no require of {self.module}")
        return required[1]

    def link_flags(self) -> str:
        """Return the linker's flags: no debug symbols, and the version where it is stamped."""
        flags = "-s -w"
        if self.version_package:
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            stamps = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += "".join(f" -X {self.version_package}.{name}={value}" for name, value in stamps.items())
        return flags

    def hash_sources(self) -> str:
        """Return 16 hexadecimal digits over all that a build is made of, but for Go itself."""
        packages = [f"{name} {each.package}" for name, each in self.programs.items()]
        folders = self.controller.folders if self.controller else ()
        digest = hashlib.sha256("\n".join((self.link_flags(), self.tags, *packages, *folders)).encode())
        for name in _MODULE_FILES:
            digest.update(self._read(name))
        return digest.hexdigest()[:16]

    def _read(self, name: str) -> bytes:
        path = self.folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise RecipeBroken(f"{path}: {error.strerror}; restore it from the repository") from error


@cache
def read_products() -> dict[str, Product]:
    """Return the table: all products by name, in the order in which they are built."""
    table = msgspec.yaml.decode((_FOLDER / "programs.yaml").read_bytes())
    return {name: msgspec.convert(row | {"name": name}, Product) for name, row in table.items()}


def choose_products(names: Iterable[str] = ()) -> tuple[Product, ...]:
    """Return the products that every control plane has, and the optional ones of these names.

    Raises UnknownController: there is none of a name.
    """
    wanted, products = set(names), read_products()
    optional = [name for name, each in products.items() if each.optional]
    if unknown := sorted(wanted - set(optional)):
        raise UnknownController(f"controller: {', '.join(unknown)} is not valid; valid: {', '.join(optional)}")
    return tuple(each for name, each in products.items() if not each.optional or name in wanted)


def check_together(products: Iterable[Product]) -> None:
    """Return quietly when these products can run in one control plane.

    Raises UnknownController: one is no part of a control plane, or two are versions of the same.
    """
    owners: dict[str, str] = {}
    for each in products:
        if each.optional and each.controller is None:
            raise UnknownController(f"controller: {each.name} is built here, but needs a cloud to run")
        if each.controller and (other := owners.setdefault(each.controller.namespace, each.name)) != each.name:
            raise UnknownController(f"controllers: {other} and {each.name} cannot run in one cluster; choose one")


def fill_in(value: Any, names: Mapping[str, Any]) -> Any:
    """Return arguments or settings with each {NAME} replaced; one alone keeps its type."""
    if isinstance(value, str):
        alone = _NAME.fullmatch(value)
        return names[alone[1]] if alone else _NAME.sub(lambda match: str(names[match[1]]), value)
    if isinstance(value, dict):
        return {key: fill_in(each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [fill_in(each, names) for each in value]
    return value


USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}
"""By the name of its kubeconfig: user and group. Controllers use the names that Kubernetes grants
rights to by default
(https://kubernetes.io/docs/reference/access-authn-authz/rbac/#core-component-roles)."""


def render_token_table(tokens: Mapping[str, str]) -> str:
    """Return the API server's file of static tokens.

    Format:
    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file.
    """
    rows = [(token, USERS[user][0], user, USERS[user][1]) for user, token in tokens.items()]
    return "".join(",".join(each for each in row if each) + "\n" for row in rows)


class Layout:
    """The files of one control plane under its folder that others read."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        """One log file per process."""
        self.keys = home / "certificates"
        """The folder of keys and certificates, by the names that webhook servers expect."""
        self.authority = self.keys / AUTHORITY
        """The certificate that everybody trusts."""

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of the users, or of a controller."""
        return self.home / f"{user}.kubeconfig"

    def create(self) -> None:
        """Make the folders, readable for this user only."""
        for folder in (self.home, self.logs, self.keys):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
