"""Reads settings from environment variables, strictly: all problems at once, unknown names refused.

Only conversion happens here (by msgspec); the fields, their defaults and their meaning are the dataclass's.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.core.errors import Misconfigured
from shared.core.kinds.table import KIND_NAMES
from shared.core.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "TPU_PROVISIONER_"
_CLUSTER_FORM = r"^projects/[^/]+/locations/[^/]+/clusters/[^/]+$"

S = TypeVar("S")


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the functions' settings.

    Raises:
        Misconfigured: with every problem found, each naming its variable and what would be valid.
    """
    values, problems = _convert_fields(Settings, environ)
    # What is right by itself is checked too when something else is wrong: all problems are told at once.
    settings = Settings(**values) if "clusters" in values else None
    if settings is not None:
        problems += _check_settings(settings)
    if problems or settings is None:
        raise Misconfigured(tuple(problems))
    return settings


def convert_environment(kind: type[S], environ: Mapping[str, str]) -> tuple[S | None, list[str]]:
    """Return an instance of a settings dataclass, or None, with the problems that were found.

    Every field may be given as ``TPU_PROVISIONER_<FIELD>``: lists comma-separated or as JSON, maps as JSON.
    """
    values, problems = _convert_fields(kind, environ)
    return (None if problems else kind(**values)), problems


def _convert_fields(kind: type[S], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that could be read, and what is wrong with the others."""
    hints = typing.get_type_hints(kind)
    fields = {f"{PREFIX}{each.name.upper()}": each for each in dataclasses.fields(typing.cast("Any", kind))}
    problems = [
        _describe_unknown(name, fields) for name in environ if name.startswith(PREFIX) and name not in fields
    ]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in environ:
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                problems.append(f"{name}: is required")
            continue
        try:
            values[field.name] = _convert(environ[name], hints[field.name])
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            problems.append(f"{name}: {error} (got {environ[name][:80]!r})")
    return values, problems


def _convert(text: str, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin is dict:
        _refuse_unknown_keys(text, typing.get_args(hint)[1])
    if origin is dict or (origin is tuple and text.lstrip().startswith("[")):
        return msgspec.json.decode(text.encode(), type=hint, strict=False)
    if origin is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return msgspec.convert(text, type=hint, strict=False)


def _refuse_unknown_keys(text: str, kind: Any) -> None:
    """Raise for a key that a map's values do not have: msgspec itself would drop it without a word."""
    if not dataclasses.is_dataclass(kind):
        return
    known = {field.name for field in dataclasses.fields(kind)}
    for name, value in msgspec.json.decode(text.encode(), type=dict[str, dict[str, Any]]).items():
        for key in value.keys() - known:
            raise msgspec.ValidationError(
                f"{name}: {key!r} is not a setting of it; known: {', '.join(sorted(known))}"
            )


def _describe_unknown(name: str, fields: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, fields, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(fields))}"
    return f"{name}: is not a setting{hint}"


def _check_settings(settings: Settings) -> list[str]:
    """Return what is wrong between fields that are right one by one."""
    import re  # noqa: PLC0415 -- already loaded by every caller; kept beside its only use

    problems = []
    if not settings.clusters:
        problems.append(f"{PREFIX}CLUSTERS: name at least one cluster")
    for name, cluster in settings.clusters.items():
        if not re.match(_CLUSTER_FORM, name):
            problems.append(f"{PREFIX}CLUSTERS: {name!r} is not projects/P/locations/L/clusters/C")
        if not cluster.endpoint.startswith(("https://", "http://")):
            problems.append(f"{PREFIX}CLUSTERS: {name}: endpoint {cluster.endpoint!r} is not a URL")
    problems += [
        f"{PREFIX}KINDS: {name!r} is not a kind of workload; known: {', '.join(KIND_NAMES)}"
        for name in settings.kinds
        if name not in KIND_NAMES
    ]
    limits = ("limit_chips", "limit_chips_per_namespace", "limit_slices", "node_disk_size_gb")
    positive = ("grace_seconds", "creation_seconds_max", "drain_seconds_max", "sweep_deletions_max")
    problems += [f"{PREFIX}{key.upper()}: must not be negative" for key in limits if getattr(settings, key) < 0]
    problems += [f"{PREFIX}{key.upper()}: must be at least 1" for key in positive if getattr(settings, key) < 1]
    pods_max = 256  # https://cloud.google.com/kubernetes-engine/quotas
    if not 8 <= settings.node_max_pods <= pods_max:  # noqa: PLR2004 -- GKE's least
        problems.append(f"{PREFIX}NODE_MAX_PODS: must be 8 to {pods_max}, got {settings.node_max_pods}")
    flex = settings.max_run_duration_seconds
    if not 600 <= flex <= 604_800:  # noqa: PLR2004 -- https://cloud.google.com/kubernetes-engine/docs/concepts/dws
        problems.append(f"{PREFIX}MAX_RUN_DURATION_SECONDS: must be 600 to 604800 (7 days), got {flex}")
    if settings.node_confidential_storage and not settings.node_boot_disk_kms_key:
        problems.append(f"{PREFIX}NODE_CONFIDENTIAL_STORAGE: needs {PREFIX}NODE_BOOT_DISK_KMS_KEY")
    for pair in settings.node_additional_networks:
        if pair.count(":") != 1:
            problems.append(f"{PREFIX}NODE_ADDITIONAL_NETWORKS: {pair!r} is not network:subnetwork")
    return problems
