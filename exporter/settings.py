"""The settings of the exporter: typed, with unit, default and reason; parsed once, strictly, all at once.

Pure: the environment comes in as a mapping. The table below is also the text of ``--help``.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.core.errors import Misconfigured
from shared.core.kinds.table import KIND_NAMES
from shared.core.settings import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "TPU_PROVISIONER_"
_CLUSTER = re.compile(r"projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/clusters/[a-z0-9-]+")
_TOPIC = re.compile(r"projects/[a-z0-9.:-]+/topics/[A-Za-z][A-Za-z0-9._~+%-]{2,254}")
_URL = re.compile(r"https?://[^/\s]+/?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LEASE_SECONDS_LEAST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything an operator can set."""

    cluster: str
    """The cluster that is watched."""
    topic: str
    """Where events go."""
    pubsub_endpoint: str = "https://pubsub.googleapis.com"
    """Base URL of the Pub/Sub API."""
    credentials: Credentials = Credentials.GOOGLE
    """How to prove who we are to Pub/Sub; anonymous only against stand-ins."""
    kinds: tuple[str, ...] = KIND_NAMES
    """The kinds of workload that are watched."""
    kubeconfig: str = ""
    """Empty: the pod's own service account."""
    http_host: str = ""
    """Empty: every address in a cluster, where the kubelet probes the pod's; 127.0.0.1 with a kubeconfig."""
    http_port: int = 8080
    """For /healthz, /readyz and /metrics; 0 takes a free port and logs it."""
    buffer_max: int = 1000
    """Events that may wait for Pub/Sub. At about 1 kB each this is a megabyte; a full buffer holds the watches."""
    lease_namespace: str = ""
    """Empty: the namespace of the account or of the kubeconfig's context."""
    lease_name: str = "tpu-provisioner-exporter"
    """One name per cluster and deployment; who holds it reports."""
    lease_seconds: int = 15
    """How long a silent leader keeps the lease; 0: no election. 15 is what Kubernetes' own components use."""
    drain_seconds: float = 1.5
    """How long to wait at the end for events under way. What is left is reported again by the next start."""

    @property
    def http_address(self) -> str:
        """Return the address to listen on."""
        if self.http_host:
            return self.http_host
        return "127.0.0.1" if self.kubeconfig else "0.0.0.0"  # noqa: S104 -- the kubelet probes the pod's address


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    field: str
    parse: Callable[[str], str | int | float | tuple[str, ...]]
    meaning: str
    default: str = ""
    required: bool = False


def _matching(pattern: re.Pattern[str], shape: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(shape)
        return text

    return parse


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return parse


def _lease_seconds(text: str) -> int:
    if text == "0":
        return 0
    try:
        return _whole(LEASE_SECONDS_LEAST, 3600)(text)
    except ValueError as error:
        raise ValueError(f"0 for no election, or {error}") from error


def _credentials(text: str) -> Credentials:
    if text not in list(Credentials):
        raise ValueError(" or ".join(Credentials))
    return Credentials(text)


def _kinds(text: str) -> tuple[str, ...]:
    named = tuple(part.strip() for part in text.split(",") if part.strip())
    if not named or not set(named) <= set(KIND_NAMES):
        raise ValueError(f"some of {', '.join(KIND_NAMES)}, comma-separated")
    return named


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) > 600:  # noqa: PLR2004 -- named in the text below
        raise ValueError("seconds from 0 to 600")
    return float(text)


_VARIABLES = (
    _Variable(
        "CLUSTER",
        "cluster",
        _matching(_CLUSTER, "projects/PROJECT/locations/LOCATION/clusters/NAME"),
        "The cluster that is watched; becomes the source of every event.",
        required=True,
    ),
    _Variable(
        "TOPIC",
        "topic",
        _matching(_TOPIC, "projects/PROJECT/topics/NAME"),
        "The Pub/Sub topic that events go to.",
        required=True,
    ),
    _Variable(
        "PUBSUB_ENDPOINT",
        "pubsub_endpoint",
        _matching(_URL, "http(s)://HOST[:PORT]"),
        "Base URL of the Pub/Sub API.",
        "https://pubsub.googleapis.com",
    ),
    _Variable(
        "CREDENTIALS",
        "credentials",
        _credentials,
        "google: the account of the metadata server; anonymous: none, for stand-ins.",
        "google",
    ),
    _Variable(
        "KINDS", "kinds", _kinds, "Kinds of workload that are watched, comma-separated.", "all that are known"
    ),
    _Variable("KUBECONFIG", "kubeconfig", str, "Path of a kubeconfig file.", "the pod's own service account"),
    _Variable(
        "HTTP_HOST",
        "http_host",
        str,
        "Address for /healthz, /readyz and /metrics.",
        "all in a cluster, 127.0.0.1 with a kubeconfig",
    ),
    _Variable("HTTP_PORT", "http_port", _whole(0, 65535), "Port for the same; 0 takes a free one.", "8080"),
    _Variable(
        "BUFFER_MAX",
        "buffer_max",
        _whole(1, 100_000),
        "Events that may wait for Pub/Sub; when they do, the watches wait too.",
        "1000",
    ),
    _Variable(
        "LEASE_NAMESPACE",
        "lease_namespace",
        _matching(_DNS_NAME, "a Kubernetes name"),
        "Namespace of the Lease that elects the one exporter that reports.",
        "that of the account or of the kubeconfig's context",
    ),
    _Variable(
        "LEASE_NAME",
        "lease_name",
        _matching(_DNS_NAME, "a Kubernetes name"),
        "Name of that Lease.",
        "tpu-provisioner-exporter",
    ),
    _Variable(
        "LEASE_SECONDS",
        "lease_seconds",
        _lease_seconds,
        "How long a silent leader keeps the Lease; 0 turns election off.",
        "15",
    ),
    _Variable(
        "DRAIN_SECONDS",
        "drain_seconds",
        _seconds,
        "How long to wait at the end for events that are under way.",
        "1.5",
    ),
)


def parse_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings in an environment.

    An empty value counts as absent.

    Raises:
        Misconfigured: with every problem at once: missing, malformed, or unknown variables with our prefix.
    """
    problems: list[str] = []
    # Each parser returns the type of its field, which a type checker cannot see through the table.
    values: dict[str, Any] = {}
    for variable in _VARIABLES:
        name, text = PREFIX + variable.name, environ.get(PREFIX + variable.name, "")
        if not text:
            if variable.required:
                problems.append(f"{name}: is required ({variable.meaning})")
            continue
        try:
            values[variable.field] = variable.parse(text)
        except ValueError as error:
            problems.append(f"{name}: {text!r} is not valid; valid: {error}")
    problems.extend(_unknown(environ))
    if problems:
        raise Misconfigured(tuple(problems))
    return Settings(**values)


def explain_settings() -> str:
    """Return one paragraph per variable: name, meaning, default."""
    paragraphs = []
    for variable in _VARIABLES:
        default = "required" if variable.required else f"default: {variable.default}"
        paragraphs.append(f"  {PREFIX}{variable.name}\n      {variable.meaning} ({default})")
    return "\n".join(paragraphs)


def _unknown(environ: Mapping[str, str]) -> list[str]:
    known = [PREFIX + variable.name for variable in _VARIABLES]
    problems = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            problems.append(f"{name}: is not a setting of the exporter; nearest: {near}")
    return problems
