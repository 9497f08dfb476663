"""Tells which policies of an organisation would refuse a part of the deployment.

The constraints are those of
https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CONTINENTS = ("africa", "asia", "australia", "europe", "me", "northamerica", "southamerica", "us")
_EXEMPT = "a person who administers policies must exempt this project"
_BOTH_KEYS = "_KMS_KEY and _SERVICES_KMS_KEY"


@dataclass(frozen=True)
class Rule:
    """One constraint: what of ours it is about, and what to do if it forbids that."""

    constraint: str
    wanted: Callable[[Mapping[str, Any]], Sequence[str]]
    """Return what the policy must allow; nothing if it does not concern these variables. For a
    constraint that is on or off, anything means that it must be off."""
    remedy: str

    def find_refusal(self, policy: Mapping[str, Any], values: Mapping[str, Any]) -> str:
        """Return why an effective policy refuses the deployment, and what to do; else empty."""
        wanted = self.wanted(values)
        if policy.get("booleanPolicy", {}).get("enforced"):
            refused = ", ".join(wanted)
        else:
            refused = ", ".join(each for each in wanted if _is_denied(each, policy.get("listPolicy", {})))
        return f"policy {self.constraint}: refuses {refused}; {self.remedy}" if refused else ""


def _is_denied(value: str, policy: Mapping[str, Any]) -> bool:
    if any(_covers(each, value) for each in policy.get("deniedValues", ())):
        return True
    allowed = policy.get("allowedValues", ())
    if allowed:
        return not any(_covers(each, value) or _is_unknown(each, value) for each in allowed)
    return bool(policy.get("allValues") == "DENY")


def _covers(entry: str, value: str) -> bool:
    """Return whether a value of a policy means this one; groups of locations have names."""
    name = entry.removeprefix("is:").removeprefix("in:")
    return name in (value, f"{value}-locations", f"{value.partition('-')[0]}-locations")


def _is_unknown(entry: str, value: str) -> bool:
    """Return whether only Google knows what is in a group, such as ``in:eu-locations``."""
    name = entry.removeprefix("in:").removesuffix("-locations")
    group = entry.startswith("in:") and "-" not in name and name not in _CONTINENTS
    return group or (entry.startswith("under:") and value.startswith("projects/"))


def _list_regions(values: Mapping[str, Any]) -> list[str]:
    wanted = [values["region"], values.get("services_region") or values["region"]]
    wanted += [values["tensorboard_region"]] if values.get("create_tensorboard") else []
    return list(dict.fromkeys(wanted))


def _list_without_keys(values: Mapping[str, Any]) -> list[str]:
    of_cluster = ["container.googleapis.com", "storage.googleapis.com"] if "kms_key" in values else []
    wanted = [] if values.get("kms_key") else of_cluster
    of_services = ["cloudfunctions.googleapis.com", "pubsub.googleapis.com", "run.googleapis.com"]
    return wanted + ([] if values["services_kms_key"] else of_services)


def _list_egress(values: Mapping[str, Any]) -> list[str]:
    own = {"none": "functions without a network", "all": "all-traffic"}
    return [own.get(values["functions_egress"], values["functions_egress"])]


RULES = (
    Rule("gcp.resourceLocations", _list_regions, "choose _REGION and _SERVICES_REGION among those that it allows"),
    Rule(
        "compute.vmExternalIpAccess",
        lambda values: ["nodes with public addresses"] if values.get("enable_private_nodes") is False else [],
        "set _PRIVATE_NODES=true",
    ),
    Rule("iam.disableServiceAccountCreation", lambda _: ["the accounts of functions and nodes"], _EXEMPT),
    Rule(
        "cloudbuild.allowedWorkerPools",
        lambda values: [values["build_worker_pool"] or "builds of functions in Google's own pool"],
        "set _BUILD_WORKER_POOL to a pool that it allows",
    ),
    Rule("cloudfunctions.allowedIngressSettings", lambda _: ["ALLOW_INTERNAL_ONLY"], _EXEMPT),
    Rule("run.allowedIngress", lambda _: ["internal"], _EXEMPT),
    Rule("run.allowedVPCEgress", _list_egress, "set _FUNCTIONS_EGRESS to all or private-ranges-only"),
    Rule("gcp.restrictNonCmekServices", _list_without_keys, f"set {_BOTH_KEYS}"),
)
