"""Random pods against random specs: a pod never gets more than its spec describes."""

import copy
import random

from shared.model import labels
from shared.model.errors import Rejected
from shared.model.needs import Tier
from shared.model.workloads import WorkloadView
from shared.needs.nodepool import Demand
from shared.needs.selectors import list_tiers
from tests.demands import plan_demands
from tests.rules.live_pods import ALL, Json, a_body, a_leader, a_workload, change, decide
from tests.slices import list_slices

SEEDS = 6_000
VALUES = {
    labels.ACCELERATOR: ("tpu-v6e-slice", "tpu7x", "tpu-v5-lite-podslice", "unknown"),
    labels.TOPOLOGY: ("4x4", "16x16", "2x2", "1x1", "2x4", "4x4x4"),
    labels.SPOT: ("true", "false"),
    labels.RESERVATION_NAME: ("ours", "theirs"),
    labels.RESERVATION_PROJECT: ("their-project",),
    labels.PROVISIONING: ("spot", "standard", "flex-start"),
    labels.ZONE: ("us-east5-a", "us-east5-b"),
    labels.INSTANCE_TYPE: ("ct6e-standard-4t", "ct6e-standard-8t", "g2-standard-96", "a3-highgpu-8g"),
    labels.ACCELERATOR_COUNT: ("1", "8"),
    labels.GPU_ACCELERATOR: ("nvidia-l4", "nvidia-h100-80gb"),
    labels.GPU_SHARING: ("time-sharing",),
    labels.GPU_CLIENTS: ("4",),
    "team": ("a", "b"),
}


def choose(draw: random.Random, *keys: str) -> dict[str, str | None]:
    return {key: draw.choice(VALUES[key]) for key in keys}


def a_random_spec(draw: random.Random) -> Json:
    gpus = draw.choice([0, 0, 1, 2])
    accelerators = (labels.GPU_ACCELERATOR,) if gpus else (labels.ACCELERATOR, labels.TOPOLOGY)
    chosen = [key for key in accelerators if draw.random() < 0.9]
    cpu = {"cpu": draw.choice(["1", "8", "40"])} if gpus else {}
    body = change(a_body(chips=0 if gpus else draw.choice([0, 4, 4, 8]), gpus=gpus, selectors={}, **cpu), {})
    return change(body, choose(draw, *chosen, *draw.sample(sorted(VALUES), draw.choice([0, 0, 1]))))


def a_random_pod(draw: random.Random, spec: Json) -> Json:
    if draw.random() < 0.2:
        return a_random_spec(draw)
    pod = change(spec, choose(draw, *draw.sample(sorted(VALUES), draw.choice([0, 1, 2]))))
    if draw.random() < 0.2:
        pod = change(pod, {}, annotations={labels.SLICE_TOPOLOGY: draw.choice(VALUES[labels.TOPOLOGY])})
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    if draw.random() < 0.2:
        limits["cpu"] = "90"
    if draw.random() < 0.1:
        pod["spec"]["containers"].append({"resources": {"limits": {labels.TPU_RESOURCE: "4"}}})
    return copy.deepcopy(pod)


def find_tier_or_none(workload: WorkloadView) -> Tier | None:
    """The first tier that the spec names; None if it leaves the tier open."""
    template = list_slices(workload)[0].group.template
    try:
        tiers = list_tiers(template)
        standard = template.find_selector(labels.PROVISIONING) == "standard"
    except Rejected:
        return None
    return tiers[0] if tiers else Tier.ON_DEMAND if standard else None


def test_a_pod_gets_no_more_chips_and_no_other_tier_than_its_spec_describes() -> None:
    compared, wrong = 0, []
    for seed in range(SEEDS):
        draw = random.Random(seed)
        kind, hosts, spec = draw.choice(ALL), draw.choice([1, 2, 4]), a_random_spec(draw)
        pod = spec if kind == "Pod" else a_random_pod(draw, spec)
        workload = a_workload(kind, spec, hosts=hosts)
        found = decide(a_leader(kind, pod), workload)
        if not isinstance(found, Demand):
            continue
        (first, *_) = list_slices(workload)
        planned, *_ = [*plan_demands(workload), None]
        if not isinstance(planned, Demand):
            continue  # the spec leaves open what it needs
        compared += 1
        template = first.group.template
        most = max(planned.shape.chips, 0 if template.topology else hosts * template.chips)
        tier = find_tier_or_none(workload)
        # Nodes of a reservation are standard ones, and which of them may be used is a setting.
        reserved = (tier, found.way.tier) == (Tier.ON_DEMAND, Tier.RESERVATION)
        # A sidecar may enlarge pods with GPUs, and then so many fit a larger machine.
        more = not template.gpus and found.shape.chips > most
        if more or not (reserved or tier in (None, found.way.tier)):
            wrong.append((seed, kind, str(found.shape), str(planned.shape)))

    assert wrong == []
    assert compared > SEEDS / 50
