"""Computes what a manifest would get before it is applied: its needs, and the plan for them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from cli.access.deployment import ANY_REGION, ANY_ZONE, ZONE
from cli.exit_codes import say
from cli.fleet.rows import UNLIMITED, Planned, decide_need, list_creates
from cli.prices import MARKET, find_price
from cli.printing import count
from shared.edges.cluster import read_disk
from shared.engine.budget import Key
from shared.engine.look import Look
from shared.engine.reads import judge_labels
from shared.engine.tell import claim_slot, describe_act, explain_answer
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import NotFound, ProvisionerError, Rejected
from shared.model.names import Try
from shared.model.needs import Asks, Need, NodeSource
from shared.model.pools import PoolShape
from shared.needs.nodepool import build_body
from shared.needs.wanted import list_wanted
from shared.needs.ways import list_volume_claims, read_list
from shared.plan.plan import make_plan
from shared.plan.scene import Pod, Scene
from shared.shapes.catalogue import TPUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cli.planning.manifests import Found, Manifest
    from shared.edges.kubernetes import JsonObject
    from shared.engine.look import StopAndCause
    from shared.engine.outside import Cluster
    from shared.model.workloads import Disk, WorkloadView
    from shared.needs.ways import Demand
    from shared.plan.scene import Act, Answer, Plan
    from shared.settings import Settings

PLANNED_UID = "00000000-0000-0000-0000-000000000000"
"""Kubernetes gives the UID when the workload is applied; names of pools hash it, so they are not
known before."""
_UNKNOWN_BEFORE = (labels.OWNER_UID, labels.CREATED_AT)
_SLOTS = 10**6
_NOW = 1.0
_NONE = Need(key="refused", asks=Asks(PoolShape("")))
"""Of a workload that Kubernetes refuses."""


_CLASSES = "/apis/storage.k8s.io/v1/storageclasses/"
_PATHS = {
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
    "PersistentVolume": "/api/v1/persistentvolumes/{1}",
    "StorageClass": _CLASSES + "{1}",
}
_AT_ONCE, _GKES_DEFAULT = "standard", "standard-rwo"
"""The one class of GKE's own that binds at once, and its default, which waits for the first pod, as
those of a manifest do: https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes."""
_LABELS, _DISKS = "no label of a namespace opts out of pools", "no disk binds pods to a zone"
"""What is assumed where it is not read."""
T = TypeVar("T")


class Facts:
    """Reads facts of manifests and a cluster; after a failure it asks no more of that kind."""

    def __init__(self, defined: Mapping[tuple[str, str, str], Mapping[str, Any]], cluster: Cluster | None) -> None:
        """Take the objects of the manifests by kind, namespace and name, and the cluster to ask."""
        self._objects = {
            _PATHS[kind].format(home, name): body for (kind, home, name), body in defined.items() if kind in _PATHS
        }
        self._cluster = cluster
        self._labels: dict[str, Mapping[str, str]] = {}
        self._unread: dict[str, str] = {}
        """What is assumed, and why."""

    def find_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace, which may opt out of pools; none if none are read."""
        if namespace not in self._labels:
            namespace_view = self._ask(_LABELS, lambda cluster: cluster.get_namespace(namespace))
            self._labels[namespace] = namespace_view.labels if namespace_view else {}
        return self._labels[namespace]

    def add_disks(self, workload: WorkloadView) -> WorkloadView:
        """Return a workload with the disks of its claims, as far as something tells them."""
        disks = (self._find_disk(workload.namespace, claim) for claim in list_volume_claims(workload))
        return structs.replace(workload, disks=tuple(disk for disk in disks if disk is not None))

    @property
    def assumptions(self) -> list[str]:
        """What the plan assumes because nothing says it."""
        return [f"assumed: {what} ({why})" for what, why in self._unread.items()]

    def _find_disk(self, namespace: str, claim: str) -> Disk | None:
        if _PATHS["PersistentVolumeClaim"].format(namespace, claim) in self._objects:
            return read_disk(self._get, namespace, claim)
        return self._ask(_DISKS, lambda cluster: cluster.find_disk(namespace, claim))

    def _ask(self, what: str, read: Callable[[Cluster], T | None]) -> T | None:
        if self._cluster is None:
            self._unread[what] = "no cluster was asked; --cluster before the command asks one"
        elif what not in self._unread:
            try:
                return read(self._cluster)
            except ProvisionerError as error:
                self._unread[what] = say(error)
        return None

    def _get(self, path: str, kind: type[JsonObject]) -> JsonObject:
        """Return one object; a class that no manifest has is taken to wait for the first pod."""
        body = self._objects.get(path)
        if body is None and path.startswith(_CLASSES):
            waits = path.removeprefix(_CLASSES) != _AT_ONCE
            body = {"volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate"}
        if body is None:
            raise NotFound(f"{path}: is in no manifest")
        return kind(self._complete(body))

    def _complete(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a claim with what the API server and the binder add to it."""
        own_spec = body.get("spec") or {}
        if body.get("kind") != "PersistentVolumeClaim" or not isinstance(own_spec, dict):
            return body
        own, spec = _locate(body["metadata"]), {"storageClassName": _GKES_DEFAULT, **own_spec}
        for each in self._objects.values():
            volume = each.get("spec")
            kept_for = volume.get("claimRef") if isinstance(volume, dict) else None
            if each["kind"] == "PersistentVolume" and isinstance(kept_for, dict) and _locate(kept_for) == own:
                spec["volumeName"] = each["metadata"]["name"]
        return {**body, "spec": spec}


def _locate(reference: Mapping[str, Any]) -> tuple[str, str]:
    return reference.get("namespace") or "default", reference.get("name") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNeed:
    """One need of a workload, and what would become of it."""

    key: Key
    need: Need
    decision: Decision
    creates: tuple[Act, ...] = ()
    demand: Demand | None = None
    """Of the first pool, with its way to get capacity; None without one."""
    node_pool: Mapping[str, Any] | None = None
    """The first pool as it would be sent; None if there is none."""
    requires: tuple[str, ...] = ()  # what must be there besides the pools
    notes: tuple[str, ...] = ()

    @property
    def pools(self) -> int:
        """Return how many pools would be created."""
        return len(self.creates)

    @property
    def nodes(self) -> int:
        """Return how many nodes its pools have; an elastic one as many as the spec wants now."""
        return self.pools * (self.creates[0].maximum or self.need.hosts) if self.creates else 0

    @property
    def chips(self) -> int:
        """Return the chips of these nodes."""
        return self.nodes * self.need.asks.shape.units

    @property
    def price(self) -> float | None:
        """Return the list price of its pools in US dollars an hour; None if it is unknown."""
        if self.demand is None or not self.creates:
            return None
        shape, way = self.demand.shape, self.demand.way
        return find_price(shape.family.accelerator, way.zone, way.tier, chips=self.chips)

    @property
    def refused(self) -> bool:
        """Return whether a person must change something."""
        return self.decision.verdict == Verdict.REFUSE


def plan(contents: Found, cluster: str, settings: Settings, facts: Facts) -> list[PlannedNeed]:
    """Return every need of some workloads, in their order. Limits count the needs before it."""
    chips, planned = Counter[str](), list[PlannedNeed]()
    for manifest in contents.workloads:
        workload = facts.add_disks(structs.replace(manifest.workload, uid=PLANNED_UID))
        here, local = _place(workload, cluster, settings)
        stop = judge_labels(workload.namespace, facts.find_labels(workload.namespace))
        key = Key(here, workload.kind, workload.namespace, workload.name)
        refusals = [PlannedNeed(key=key, need=_NONE, decision=each.decision) for each in manifest.refusals]
        needs = refusals or _plan_workload(key, workload, local, stop, chips)
        absent = [
            f"the {kind} {name} of namespace {home}"
            for kind, home, name in sorted({*manifest.names} - {*contents.defined})
        ]
        planned += [_add_remarks(each, manifest, workload, absent) for each in needs]
    return planned


def _plan_workload(
    key: Key, workload: WorkloadView, settings: Settings, stop: StopAndCause, chips: Counter[str]
) -> list[PlannedNeed]:
    """Return the needs of a workload when it runs; `chips` counts earlier ones by namespace."""
    awake = structs.replace(workload, suspended=False, managed_elsewhere=False)
    wanted = list_wanted(key.cluster, awake, (), {}, settings)
    wanted = structs.replace(wanted, needs=tuple(filter(_wants_something, wanted.needs)))
    pods = tuple(pod for need in wanted.needs for pod in _list_pods(need))
    limits = ((settings.limit_chips, chips.total()), (settings.limit_chips_per_namespace, chips[key.namespace]))
    room = min((limit - used for limit, used in limits if limit), default=UNLIMITED)
    scene = Scene(now=_NOW, needs=wanted.needs, pods=pods, room=room, slots=_SLOTS, stop=stop[0])
    look = Look(key=key, scene=scene, wanted=wanted, workload=workload, stop=stop, began_at=_NOW)
    outcome = make_plan(scene)
    planned = [_plan_need(need, look, outcome) for need in wanted.needs]
    planned += [PlannedNeed(key=key, need=need, decision=other) for need, other in wanted.left]
    chips[key.namespace] += sum(each.chips for each in planned)
    return planned


def _wants_something(need: Need) -> bool:
    return bool(need.never or (need.nodes if need.elastic else need.most))


def _list_pods(need: Need) -> Iterator[Pod]:
    """Yield one waiting pod for each slice that a need has, as its controller will make them."""
    for number in range(1 if need.elastic else need.most):
        name = need.pin or ("" if need.elastic else str(number))
        yield Pod(need=need.key, slice=name, waits=True)


def _plan_need(need: Need, look: Look, outcome: Plan) -> PlannedNeed:
    creates = tuple(list_creates(need, outcome))
    demand = look.wanted.demands.get(need.key)
    if not creates or demand is None:
        decision = decide_need(need, Planned(look=look, plan=outcome))
        return PlannedNeed(key=look.key, need=need, decision=decision, demand=demand)
    first = structs.replace(demand, index=creates[0].candidate, empty=creates[0].empty)
    try:
        body = _build(first, creates[0], look)
    except Rejected as error:
        return PlannedNeed(key=look.key, need=need, decision=error.decision, demand=demand)
    answers = [answer for answer in outcome.answers if answer.need == need.key]
    notes = (_describe_note(answer, look, need, len(creates)) for answer in answers)
    return PlannedNeed(
        key=look.key,
        need=need,
        decision=describe_act(creates[0], look).decision,
        creates=creates,
        demand=first,
        node_pool=body,
        notes=tuple(filter(None, notes)),
    )


def _describe_note(answer: Answer, look: Look, need: Need, pools: int) -> str:
    """Return what an owner reads beside the creates; empty if nothing is missing."""
    if answer.reason == Reason.LIMIT_REACHED:
        return f"a limit allows only {pools} of its {count(need.most, 'pool')}"
    mixes = answer.reason == Reason.SLICES_MAY_MIX
    return f"warning: {explain_answer(answer, look).message} [{answer.reason}]" if mixes else ""


def _build(chosen: Demand, act: Act, look: Look) -> dict[str, Any]:
    """Return the body of a pool without its name, and without the labels that need the UID."""
    body = build_body(
        chosen, claim_slot(act, look), Try(), maximum=act.maximum, created_at=0, cluster_uid="", on_channel=True
    )
    del body["name"]
    own = body["config"]["labels"]
    body["config"]["labels"] = {name: value for name, value in own.items() if name not in _UNKNOWN_BEFORE}
    return body


def _add_remarks(
    planned: PlannedNeed, manifest: Manifest, workload: WorkloadView, absent: Sequence[str]
) -> PlannedNeed:
    demand = planned.demand if planned.creates else None
    notes = [*manifest.notes, *_read_notes(workload), *planned.notes]
    requires = [*absent, *list_mixed(workload)]
    if demand is not None:
        notes += [*_list_idle(planned, workload), *_list_candidates(demand), *_list_unlisted(demand)]
        requires += list_pool_needs(demand)
    return dataclasses.replace(planned, notes=tuple(notes), requires=tuple(requires))


def _read_notes(workload: WorkloadView) -> Iterator[str]:
    """Yield what to know of a workload."""
    if workload.suspended:
        yield "it starts suspended (a queue admits it); its pools are created when it is resumed"
    if workload.managed_elsewhere:
        yield "spec.managedBy names another controller; nothing is created in this cluster"


def _list_idle(planned: PlannedNeed, workload: WorkloadView) -> Iterator[str]:
    if planned.need.elastic:
        return
    for group in workload.groups:
        pods = group.hosts or group.pods
        alike = group.template.chips == planned.need.asks.shape.units
        if pods and alike and planned.need.hosts > pods:
            yield f"{count(planned.need.hosts - pods, 'host')} of each slice of {group.name} will have no pod"


def _list_candidates(demand: Demand) -> Iterator[str]:
    listed = "; ".join(f"{number} {each}" for number, each in enumerate(demand.need.ways, start=1))
    filled = [str(at) for at, each in enumerate(demand.need.ways, 1) if each.nodes_from == NodeSource.AUTOSCALER]
    by = f"; GKE's autoscaler makes the nodes of {', '.join(filled)}" if filled else ""
    if len(demand.need.ways) > 1:
        yield f"candidates, tried in this order: {listed}{by}"


def _list_unlisted(demand: Demand) -> Iterator[str]:
    """Yield a warning for each zone that is not known to have the machines."""
    for zone in dict.fromkeys((demand.way.zone, *(each.zone for each in demand.need.ways))):
        warning = "" if zone.endswith(ANY_ZONE) else tell_unlisted(demand.shape.family.accelerator, zone)
        if warning:
            yield f"warning: {warning}; GKE may refuse the pool"


def _place(workload: WorkloadView, cluster: str, settings: Settings) -> tuple[str, Settings]:
    """Return a cluster and its settings; one in any region moves to where a workload asks to be."""
    zones: list[str] = []
    for each in (group.template for group in workload.groups):
        zones += (*each.selection.get(labels.ZONE, ()), *each.selection.get(labels.RESERVATION_ZONE, ()))
        with contextlib.suppress(Rejected):  # the rules tell what is wrong with the list
            zones += (way.zone for way in read_list(each))
        zones += (region + ANY_ZONE for region in each.selection.get(labels.REGION, ()))
    zones += (zone for disk in workload.disks for zone in disk.zones)
    region = next((zone.rpartition("-")[0] for zone in zones if ZONE.fullmatch(zone)), ANY_REGION)
    name, there = cluster.replace(ANY_REGION, region), settings.clusters[cluster]
    moved = structs.replace(there, zone=there.zone.replace(ANY_REGION, region))
    return name, structs.replace(settings, clusters={name: moved})


def summarize(planned: Sequence[PlannedNeed], *, unserved: bool) -> str:
    """Return one sentence: how many pools, nodes and chips, and how many needs get none."""
    created = [each for each in planned if each.creates]
    refused = sum(each.refused for each in planned)
    waiting = sum(each.decision.verdict == Verdict.WAIT for each in planned)
    left = len(planned) - len(created) - refused - waiting
    tail = f"; {refused} refused" * bool(refused) + f"; {waiting} waiting" * bool(waiting)
    tail += f"; {left} not for this provisioner" * bool(left)
    if not planned and unserved:
        return "no pools: what asks for accelerators is not planned"
    if not planned:
        return "no workload needs accelerators"
    pools, nodes, chips = (sum(getattr(each, name) for each in created) for name in ("pools", "nodes", "chips"))
    return f"{count(pools, 'pool')} with {count(nodes, 'node')} and {count(chips, 'chip')}{tail}"


def list_pool_needs(demand: Demand) -> list[str]:
    """Return what a demand's pool takes from its surroundings."""
    named = {
        "the reservation {}": demand.way.reservation.path,
        "the networks {}": ", ".join(demand.networks),
        "the service account {} for the nodes": demand.node_service_account,
    }
    return [what.format(name) for what, name in named.items() if name]


def list_mixed(workload: WorkloadView) -> list[str]:
    """Return how to keep slices apart where only a webhook can, from the functions' refusal."""
    kind, ways = get_kind(workload.kind), list[str]()
    for group in workload.groups:
        try:
            kind.check_apart(group.template, workload, group, "0")
        except Rejected as error:
            ways.append(
                f"a way to keep its slices apart, else its pods are refused [{error.reason}]: {error.valid}"
            )
    return ways


ZONES: dict[str, str] = MARKET["zones"]["of"]
"""The zones of each region, by generation of TPUs and type of GPUs."""


def tell_unlisted(accelerator: str, zone: str) -> str:
    """Return a warning if `ZONES` has an accelerator, but not in a zone; else an empty text."""
    kind = TPUS[accelerator].generation if accelerator in TPUS else accelerator
    regions = dict(each.split(":") for each in ZONES.get(kind, "").split())
    region, _, letter = zone.rpartition("-")
    listed = regions.get(region, "").split(",")
    if not regions or letter in listed:
        return ""
    near = ", ".join(f"{region}-{each}" for each in listed) if region in regions else "other regions only"
    return f"on {MARKET['zones']['listed_on']} no {kind} was listed in {zone}, but in {near}"
