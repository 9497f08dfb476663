"""What a need asks of GKE, and the ways to get it, the best first: tiers, zones, reservations.

The pods' annotation lists them, else the operator's policy; else the pods' selectors name the only
one. What the pods select stays as it is: a way of the annotation that the pods could not run on is
refused, and one of the operator's policy is left out, because a policy is for many workloads. A
volume of one zone pins the pods to that zone, as a selector does, and a claim that is not bound can
mean that no node helps now. Selectors:
https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms,
https://cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations,
https://cloud.google.com/kubernetes-engine/docs/concepts/dws.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property

from msgspec import Struct, structs

from shared.capacity_texts import FLEX_SECONDS_MAX, FLEX_SECONDS_MIN, UnreadableList, read_ways
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected, refuse
from shared.model.needs import Need, Reservation, Tier, Way
from shared.model.times import read_seconds
from shared.model.workloads import SPOT_TAINT, Disk, PodTemplate, SliceGroup, WorkloadView
from shared.needs import templates
from shared.settings import WAIT_SECONDS_MAX, Settings, is_allowed
from shared.shapes.catalogue import Shape

WAYS_MAX = 16  # a round of them takes hours when each one needs 35 minutes to fail
_NAME = re.compile(r"[a-z][-a-z0-9.:]{0,62}")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")


class Demand(Struct, frozen=True, dict=True):
    """What one need asks of GKE: everything that a body is built from, and nothing else."""

    cluster: str
    workload: WorkloadView
    group: SliceGroup  # its template has what live pods add
    settings: Settings
    shape: Shape
    need: Need
    index: int = 0  # of the way that was chosen
    empty: bool = False  # GKE's autoscaler makes the nodes of the pool, and not its creation
    node_labels: dict[str, str] = {}
    """Labels that the pods select or copy, or that the setting copies from them; none of ours."""
    networks: tuple[str, ...] = ()  # ``network:subnetwork`` pairs
    node_service_account: str = ""
    disk_gb: int = 0  # size of the boot disk; 0: GKE's default

    @property
    def template(self) -> PodTemplate:
        """Return what the pods ask of their node."""
        return self.group.template

    @property
    def way(self) -> Way:
        """Return the way that was chosen."""
        return self.need.ways[self.index]

    @property
    def place(self) -> str:
        """Return the tier; where there is a choice, ``candidate 2 of 5, spot in us-east5-b``."""
        choices = len(self.need.ways)
        if choices == 1:
            return str(self.way.tier)
        return f"candidate {self.index + 1} of {choices}, {self.way}"

    @cached_property
    def disks(self) -> list[Disk]:
        """Return the disks of the pods that are in certain zones only."""
        claims = self.template.volume_claims
        return [each for each in self.workload.disks if each.zones and each.claim in claims]

    @cached_property
    def disk_zones(self) -> list[str]:
        """Return the zones in which the pods can use all of their disks; empty without disks."""
        zones = [] if not self.disks else self.disks[0].zones
        common = [each for each in zones if all(each in disk.zones for disk in self.disks)]
        if self.disks and not common:
            raise refuse("no_zone_of_all_disks", claim=self.disks[-1].claim, disks=self.disks)
        return common

    def reaches(self, zone: str) -> bool:
        """Return whether pods in a zone can use all of their disks."""
        return not self.disk_zones or zone in self.disk_zones

    def refuse_zone(self, zone: str, field: str) -> Rejected:
        """Return why the pods cannot run in a zone: their disks are in others."""
        zones = " or ".join(self.disk_zones)
        return refuse("disk_in_another_zone", zone, field=field, disks=self.disks, zones=zones)

    @cached_property
    def selected(self) -> Way:
        """Return the way that the pods select, without a zone; on-demand when they select none."""
        tiers = [] if self.settings.force_on_demand else templates.list_tiers(self.template)
        if len(tiers) > 1:
            raise refuse("several_tiers", " + ".join(tiers))
        tier = tiers[0] if tiers else Tier.ON_DEMAND
        select = self.template.find_selector
        words = frozenset((key, select(key)) for key in templates.CHECKED_BY_GKE)
        way = Way(tier, machine=self.shape.machine.name, words=words)
        if tier == Tier.RESERVATION:
            parts = {part: select(key) or "" for part, key in templates.RESERVATION_PARTS.items()}
            reservation = Reservation(**parts)
            _check_names(reservation)
            self.check_listed(reservation)
            return dataclasses.replace(way, reservation=reservation)
        if tier == Tier.FLEX_START:
            text = self.template.find_selector(labels.MAX_RUN_DURATION) or str(FLEX_SECONDS_MAX)
            seconds = read_seconds(
                text, labels.MAX_RUN_DURATION, least=FLEX_SECONDS_MIN, most=FLEX_SECONDS_MAX
            )
            return dataclasses.replace(way, run_seconds=seconds)
        return way

    def check_listed(self, reservation: Reservation) -> None:
        """Accept a reservation that the settings list, and none."""
        project, name = reservation.project, reservation.name
        shared, field = project not in ("", self.cluster.split("/")[1]), labels.RESERVATION_NAME
        # ``*`` matches any text, so only a pattern that names a project may match another one's.
        listed = self.settings.allowed_reservations
        patterns = tuple(each for each in listed if ("/" in each) == shared)
        if shared:
            field, name = labels.RESERVATION_PROJECT, f"{project}/{name}"
        if name:
            templates.check_listed(name, patterns, "allowed_reservations", field)

    @cached_property
    def flex_wait(self) -> int:
        """Return the seconds that a flex-start pool may wait for its first node; 0: without end.

        The annotation replaces the setting. A pool that waits costs nothing, so both have one
        bound. The nodes of an elastic pool come and go, so that it has none is no failure.
        """
        if self.group.elastic:
            return 0
        usual = str(self.settings.flex_start_wait_seconds)
        text = self.template.annotations.get(labels.FLEX_START_WAIT, usual)
        field = f"annotation {labels.FLEX_START_WAIT}"
        return read_seconds(text, field, most=WAIT_SECONDS_MAX)

    @cached_property
    def zone(self) -> str:
        """Return the zone of the pool where no list names one.

        It is that of the pods, else of their disks, of the setting, or of a zonal cluster.
        """
        location = self.cluster.split("/")[3]
        usual = self.settings.clusters[self.cluster].zone
        if not usual and _ZONE.fullmatch(location):
            usual = location
        keys = (labels.ZONE, labels.RESERVATION_ZONE)
        own = next(filter(None, map(self.template.find_selector, keys)), "")
        zones = self.disk_zones or [own or usual]
        if own and own not in zones:
            raise self.refuse_zone(own, f"spec.nodeSelector {labels.ZONE}")
        zone = own or (usual if usual in zones else zones[0])
        if not zone:
            raise refuse("no_zone", location=location, cluster=self.cluster)
        return zone

    def complete(self, way: Way) -> Way:
        """Return a way of a list with what the list leaves to the pods and to the operator."""
        reservation = way.reservation
        if reservation.project == self.cluster.split("/")[1]:
            reservation = structs.replace(reservation, project="")
        return dataclasses.replace(
            way,
            zone=way.zone or self.zone,
            reservation=reservation,
            machine=self.shape.machine.name,
            words=self.selected.words,
            run_seconds=(way.run_seconds or FLEX_SECONDS_MAX) * (way.tier == Tier.FLEX_START),
        )

    def check(self, way: Way) -> None:
        """Accept a way that GKE offers in the cluster, and on whose nodes the pods can run."""
        region = "-".join(self.cluster.split("/")[3].split("-")[:2])
        if not _ZONE.fullmatch(way.zone) or not way.zone.startswith(f"{region}-"):
            raise refuse("zone_of_another_region", way.zone, region=region)
        offered = templates.list_offered_labels(self.shape, way, self.settings)
        templates.check_nodes(self.template, self.node_labels | offered)
        if way.tier == Tier.RESERVATION:
            _check_names(way.reservation)
        if way.tier == Tier.FLEX_START and not self.shape.family.flex_start:
            raise refuse("no_flex_start", self.shape.family.accelerator)
        # GKE adds the toleration to pods that select spot nodes.
        added = Tier.SPOT in templates.list_tiers(self.template)
        if way.tier == Tier.SPOT and not (added or self.template.tolerates(SPOT_TAINT)):
            raise refuse("spot_not_tolerated", str(SPOT_TAINT))

    def find_misfit(self, way: Way) -> Rejected | None:
        """Return why the pods could not run on the nodes of a way; None if they can."""
        try:
            self.check(way)
        except Rejected as error:
            return error
        return None


def list_ways(demand: Demand) -> tuple[Way, ...]:
    """Return the ways of pods, at least one, and at most `WAYS_MAX`.

    Those in whose zone the pods cannot use their disks are left out: the author of an annotation
    does not know where the disks are made that the pods create.
    """
    settings = demand.settings
    if labels.CAPACITY in demand.template.annotations and not settings.force_on_demand:
        return _list_annotated(demand)
    listed = [] if settings.force_on_demand else _list_policy(demand)
    fitting = [way for way in listed if demand.reaches(way.zone) and not demand.find_misfit(way)]
    if fitting:
        return tuple(fitting)
    only = dataclasses.replace(demand.selected, zone=demand.zone)
    demand.check(only)
    return (only,)


def read_list(template: PodTemplate) -> tuple[Way, ...]:
    """Return the fallback list in a pod's annotation; empty without one."""
    text = template.annotations.get(labels.CAPACITY)
    try:
        return () if text is None else read_ways(text)
    except UnreadableList as error:
        raise refuse("list_unreadable", problem=error) from error


def _list_annotated(demand: Demand) -> tuple[Way, ...]:
    listed = read_list(demand.template)
    if len(listed) > WAYS_MAX:
        raise refuse("too_many_candidates", most=WAYS_MAX)
    ways = [demand.complete(way) for way in listed]
    for number, way in enumerate(ways, start=1):
        demand.check_listed(way.reservation)
        misfit = demand.find_misfit(way)
        if misfit is not None:
            raise refuse("candidate_unfit", number=number, way=way, misfit=misfit)
    reached = tuple(way for way in ways if demand.reaches(way.zone))
    if not reached:
        field = f"annotation {labels.CAPACITY}: candidate 1, {ways[0]}"
        raise demand.refuse_zone(ways[0].zone, field)
    return reached


def _list_policy(demand: Demand) -> list[Way]:
    """Return the ways of the operator's first policy for these pods."""
    key = labels.GPU_ACCELERATOR if demand.template.gpus else labels.ACCELERATOR
    accelerator = demand.template.find_selector(key) or ""
    for policy in demand.settings.capacity_policies:
        of_namespace = is_allowed(demand.workload.namespace, policy.namespaces)
        if of_namespace and is_allowed(accelerator, policy.accelerators):
            return [demand.complete(way) for way in policy.ways]
    return []


def _check_names(reservation: Reservation) -> None:
    """Accept a reservation with a name, and names of which none is a path to another one."""
    for part, value in structs.asdict(reservation).items():
        if not _NAME.fullmatch(value or ("" if part == "name" else "none")):
            raise refuse("no_reservation_name", value, field=templates.RESERVATION_PARTS[part])


def list_volume_claims(workload: WorkloadView) -> tuple[str, ...]:
    """Return the claims that the pods with accelerators of a workload's spec name, each once."""
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    return tuple(dict.fromkeys(claim for template in asking for claim in template.volume_claims))


def find_unbound(template: PodTemplate, workload: WorkloadView) -> Decision | None:
    """Return the claim because of which no node can help the pods now; None without one."""
    # A claim that no template names is one that a controller makes for a pod that waits.
    others = {*list_volume_claims(workload)} - {*template.volume_claims}
    for disk in workload.disks:
        if disk.unbound and disk.claim not in others:
            text = f"PersistentVolumeClaim {workload.namespace}/{disk.claim} {disk.unbound}"
            return Decision(Verdict.WAIT, Reason.CLAIM_UNBOUND, text)
    return None
