"""Scenes of the plan: those of the design's model, which pools count for whom, Kueue's check."""

from __future__ import annotations

from tests.rules.plan_scenes import (
    ELASTIC,
    ELASTIC_LIST,
    EMPTY,
    ERROR,
    FLAVOR,
    FOREIGN,
    GANG,
    GO,
    GPU,
    HUNG,
    IDLE_READY,
    LIST,
    LOST,
    NEW,
    NO_NEED,
    PART,
    PLAIN,
    SPOT,
    SPOT_POOL,
    TWO,
    Need,
    Pod,
    Pool,
    Scene,
    both,
    fleet,
    on,
    scene,
    waits,
)

SCENES: dict[str, Scene] = {
    "two slices wait": scene([Pod(0), Pod(1)], most=2, gets="create 0.0 demand, create 1.0 demand"),
    "a second delivery sees the first pool": scene(
        [Pod(0), Pod(1)], [Pool(0, state="PROVISIONING", nodes=0)], most=2, gets="create 1.0 demand"
    ),
    "a gated, a nominated and a young pod": scene(
        [Pod(0, held="gated"), Pod(1, held="nominated"), Pod(2, held="young")], most=3
    ),
    "restart gap: no pods": scene((), fleet(2), most=2),
    "slices have changed pools": scene(on("1.0", 0) + on("0.0", 1), fleet(2), most=2),
    "one slice runs, its sister waits": scene((*on("0.0", 0), Pod(1)), fleet(1), most=2, gets="create 1.0 demand"),
    "runs on a static pool: ours is too many": scene(on("static", 0), [Pool(0)], gets="delete 0.0"),
    "runs on a failed pool with all hosts: its successor is too many": scene(
        on("0.0", 0), [Pool(0, state="ERROR"), Pool(0, 1)], gets="delete 0.1"
    ),
    "runs on a failed pool in part: its successor stays": scene(
        on("0.0", 0, 3), [Pool(0, state="ERROR", nodes=3), Pool(0, 1)]
    ),
    "two slices, each in part on a static pool: nothing is created for their sake": scene(
        (*on("0.0", 0, 2), *on("static", 0, 2), *on("0.0", 1, 2), *on("static", 1, 2)),
        [Pool(0)],
        most=2,
        gets="slice_mixed",
    ),
    "too many for one tick only": scene(on("static", 0), [Pool(0, spare_before=False)]),
    "followers wait beside a static pool": scene((*on("static", 0, 1), Pod(0)), (), gets="followers_wait"),
    "taken by a foreign pod": scene((Pod(0), *FOREIGN), fleet(1), gets="create 0.1 demand, pool_taken"),
    "the second one taken too": scene(
        (Pod(0), *FOREIGN, Pod("y", "0.1", ours=False)), [Pool(0), Pool(0, 1)], gets="pool_taken"
    ),
    "taken, its taker's pool is coming": scene((Pod(0), *FOREIGN), fleet(1), takers_served=True),
    "edited policy on a running fleet": scene(TWO, fleet(2), most=2, ways=("reservation", "spot", "demand")),
    "a new hash version, and its pool has lost a host": scene(
        HUNG, [LOST.but(key="k2")], gets="create 0.1 demand round=1, host_lost"
    ),
    "a new hash version in a restart gap": waits(fleet(2), Need(key="k2"), most=2),
    "LWS waits for another flavor": waits(
        fleet(1), Need(key="k2", asks=FLAVOR), gets="create 0.0 demand, delete 0.0"
    ),
    "LWS surge: the fourth waits": scene((*TWO, *on("2.0", 2), Pod(3)), fleet(4), most=4),
    "Ray scaled down": scene(on("1.0", 1), fleet(2), gets="delete 0.0"),
    "two mixed slices": scene(
        on("0.0", 0, 2) + on("1.0", 0, 2) + (*on("0.0", 1, 2), Pod(1)), fleet(2), most=2, gets="slice_mixed"
    ),
    "pinned": scene([Pod("w-1")], need=Need(pin="w-1"), gets="create w-1.0 demand"),
    "suspended within the grace": scene((), fleet(1), suspended=200),
    "suspended after the grace": scene((), fleet(1), suspended=400, gets="delete 0.0"),
    "quota lost a moment ago": scene((), fleet(1), suspended=9000, queue="none", quota_lost=20),
    "gang of 64, 20 slots, limit of 64": scene(
        most=64,
        limit=256,
        **GANG,
        gets=", ".join([*(f"create {n}.0 demand" for n in range(20)), "no_operation_slot"]),
    ),
    "gang of 64, 60 are there": scene(
        (), fleet(60), most=64, limit=256, **GANG, gets=", ".join(f"create {n}.0 demand" for n in range(60, 64))
    ),
    "gang, room for a part": scene(most=4, limit=12, **GANG, gets="limit_reached"),
    "gang, a part is held too long": scene(
        (), fleet(1), most=2, part_held=900, limit=4, **GANG, gets="check_retry, limit_reached"
    ),
    "gang after our Retry": scene(
        (), fleet(1), most=2, suspended=9000, queue="none", quota_lost=5, retried=True, gets="delete 0.0"
    ),
    "gang ready": scene((), fleet(2), most=2, **GANG, gets="check_ready"),
    "no list: error, pause": waits([ERROR], gets="paused"),
    "no list: the pause is over": waits([ERROR.but(error=70)], gets="create 0.1 demand round=1"),
    "a paused slot is not evaded": scene((*on("1.0", 1), Pod(0)), [ERROR, Pool(1)], most=2, gets="paused"),
    "list: refused at once": waits(ways=LIST, refused=(0,), gets="create 0.0 demand empty"),
    "list: every way refused at once": waits(ways=LIST, refused=(0, 1), gets="paused"),
    "list: 150 autoscaled pools": waits(ways=LIST, autoscaled=150, gets="create 0.0 spot"),
    "list: several GPU machines": scene(
        [Pod(0, shape="gpu")], need=Need(list=LIST, shape="gpu"), gets="create 0.0 spot"
    ),
    "list: a queued workload": scene(ways=LIST, **GANG, gets="create 0.0 spot"),
    "too many creates in an hour": waits(operations=((0, 0), (0, 1), (0, 2), (0, 3)), gets="paused"),
    "list: short without a machine": waits([EMPTY], ways=LIST, gets="create 0.1 demand empty, switch-off 0.0"),
    "list: within the patience": waits([EMPTY.but(error=100, age=100)], ways=LIST),
    "list: short with half of its machines": waits(
        [EMPTY.but(nodes=2, ready=190)], ways=LIST, gets="create 0.1 demand empty"
    ),
    "list: pause after the last, the record stays": waits(
        [EMPTY.but(attempt=1, candidate=1, round=2, maximum=0)], ways=LIST, gets="paused"
    ),
    "list: the successor is listed": waits([EMPTY, NEW], ways=LIST, gets="delete 0.0"),
    "list, limit of one slice": waits([EMPTY], ways=LIST, limit=4, gets="switch-off 0.0, limit_reached"),
    "list, limit of one slice, switched off": waits(
        [EMPTY.but(maximum=0)], ways=LIST, limit=4, gets="create 0.1 demand empty"
    ),
    "list, limit of one slice, half filled": waits(
        [EMPTY.but(nodes=2, ready=190)], ways=LIST, limit=4, gets="delete 0.0, pool_goes_first"
    ),
    "lost host in a reservation": scene(
        HUNG, [LOST], ways=("reservation",), gets="delete 0.0, host_lost, pool_goes_first"
    ),
    "lost host: the successor first": scene(HUNG, [LOST], gets="create 0.1 demand round=1, host_lost"),
    "flex-start waits for hours": scene([Pod(0, age=20000)], [Pool(0, nodes=0, age=20000)], ways=("flex", "spot")),
    "useless: the first": scene([Pod(0, age=2000)], [IDLE_READY], gets="create 0.1 demand round=1 useless=1"),
    "useless: the third": scene([Pod(0, age=2000)], [IDLE_READY.but(useless=2)], gets="delete 0.0, pool_useless"),
    "useless: refused from then on": scene([Pod(0, age=9000)], refused_useless=True, gets="pool_useless"),
    "useless: refused, and another slot has one": scene(
        [Pod(0, age=2000), Pod(1, age=2000)],
        [IDLE_READY.but(slot=1)],
        most=2,
        refused_useless=True,
        gets="delete 1.0, pool_useless",
    ),
    "the pod is younger than the nodes": scene([Pod(0, age=500)], [IDLE_READY]),
    "elastic: first": waits(need=ELASTIC, limit=2, gets="create any.0 demand max=2"),
    "elastic: more": scene((*on("any.0", 0, 3), Pod(1)), [GPU], ELASTIC.but(wants=5), gets="raise any.0 5"),
    "elastic: fewer, two nodes exist": scene(
        on("any.0", 0, 1), [GPU.but(maximum=5, nodes=2)], ELASTIC.but(wants=1), gets="lower any.0 2"
    ),
    "elastic: none for now": scene((), [GPU.but(nodes=0)], ELASTIC.but(wants=0), gets="lower any.0 1"),
    "elastic: on a taken pool": scene((Pod("x", "any.0", ours=False), Pod(0)), [GPU], ELASTIC),
    "part of a host: fewer": scene(on("any.0", 0, 1), [GPU], PART),
    "part of a host: none": scene((), [GPU], PART.but(wants=0), gets="delete any.0"),
    "warm: over": scene((), fleet(1), over=True, warm=True, gets="mark 0.0"),
    "warm: idle": scene((), fleet(1, idle=100), over=True, warm=True),
    "warm: its time is over": scene((), fleet(1, idle=700), over=True, warm=True, gets="close 0.0"),
    "warm: closed a moment ago": scene((), fleet(1, idle=700, closed=10), over=True, warm=True),
    "warm: closed for a tick": scene((), fleet(1, idle=700, closed=70), over=True, warm=True, gets="delete 0.0"),
    "warm: a pod of its workload waits for it": waits(fleet(1, idle=700, closed=70), gets="open 0.0"),
    "warm: a pod of its workload waits, and no-create opens nothing": waits(
        fleet(1, idle=700, closed=70), stop="no-create"
    ),
    "warm: what the scheduler does not place opens no pool": scene(
        [Pod(0, age=5000)], fleet(1, idle=1000, closed=70), gets="pod_unplaced"
    ),
    "Go pool, live": scene(on("go", 0), [GO]),
    "Go pool, ERROR": waits([GO.but(state="ERROR", nodes=0)], gets="create 0.0 demand"),
    "Go pool, ERROR, its successor is listed": waits(
        [GO.but(state="ERROR", nodes=0), NEW.but(attempt=0)], gets="delete go"
    ),
    "Go pool, ERROR, JobSet over": scene((), [GO.but(state="ERROR", nodes=0)], over=True, gets="delete go"),
    "over, a pod still terminates": scene(on("0.0", 0, 1, held="terminating"), fleet(1), over=True),
    "stop: no-create": waits(fleet(0), most=2, stop="no-create", gets="stopped"),
    "stop: report-only": scene((), fleet(1), over=True, stop="report-only"),
    "limit reached": scene([Pod(0), Pod(1)], most=2, limit=4, gets="create 0.0 demand, limit_reached"),
    "a STOPPING pool keeps its number": waits(fleet(1, state="STOPPING"), gets="create 0.1 demand"),
    "a number that only operations know": waits(operations=((0, 0),), gets="create 0.1 demand"),
    "a twin on its way replaces nothing": scene((), [Pool(0), Pool(1, state="PROVISIONING", nodes=0)]),
    "what fits is waited for": scene((*on("static", 0), Pod(1)), [Pool(0)], gets="slice_doubled"),
    "edited to another shape, empty": scene(on("0.0", 0), [Pool(0), Pool(0, 7, shape="old")], gets="delete 0.7"),
    "a slice with two hosts elsewhere is no proof": scene(on("static", 0, 2), [Pool(0)]),
    "a pod is being made": scene([Pod(0, held="young")], fleet(2)),
    "the owner is unknown": scene((), fleet(1), over=True, unknown=True),
    "GKE upgrades the pool": scene(HUNG, [LOST.but(busy=True)]),
    "claim unbound": waits(need=Need(waits_for="claim_unbound"), gets="claim_unbound"),
    "one part is refused": Scene(
        (Need(), Need(shape="gpu", never="resource_unknown")),
        (Pod(0), Pod(0, shape="gpu")),
        gets="resource_unknown",
    ),
    "one part is refused for which no other waits": Scene(
        (Need(), Need(shape="gpu", never="resource_unknown", apart=True)),
        (Pod(0), Pod(0, shape="gpu")),
        gets="create 0.0 demand, resource_unknown",
    ),
    "one part is refused for which no other waits, and its pods fit the other's pool": Scene(
        (Need(), Need(key="k2", never="resource_unknown", apart=True)),
        (Pod(0, group=0), Pod(0, group=1)),
        (Pool(0, state="PROVISIONING", nodes=0),),
        gets="resource_unknown",
    ),
    "one part waits for a claim": Scene(
        (Need(), Need(shape="gpu", waits_for="claim_unbound")), (Pod(0), Pod(0, shape="gpu")), gets="claim_unbound"
    ),
    "one part waits for a claim, and no other waits for it": Scene(
        (Need(), Need(shape="gpu", waits_for="claim_unbound", apart=True)),
        (Pod(0), Pod(0, shape="gpu")),
        gets="create 0.0 demand, claim_unbound",
    ),
    "one part has a claim that is unbound, and no pods yet": Scene(
        (Need(), Need(shape="gpu", waits_for="claim_unbound")), (Pod(0),), gets="create 0.0 demand"
    ),
    "a finished RayJob keeps its cluster": scene(on("0.0", 0), fleet(1), parent_over=True, gets="parent_over"),
}


COUNTING: dict[str, Scene] = {
    "a pool counts for the need that asks most": both(
        [Pod(0, group=0), Pod(1, group=1)],
        [SPOT_POOL.but(state="PROVISIONING", nodes=0)],
        gets="create 0.0 demand",
    ),
    "what fits two needs is kept for the second": both(
        [*on("1.0", 0, group=0), *on("0.0", 1, group=1)], [SPOT_POOL, Pool(1, key="a")]
    ),
    "a slice runs on a pool that another one could use": both(
        [*on("0.0", 0, group=0), Pod(1, group=1)],
        [SPOT_POOL, Pool(1, key="a")],
        gets="create 1.0 demand, delete 1.0",
    ),
    "two needs share the room under a limit": both(
        [Pod(0, group=0), Pod(1, group=1)], (), limit=4, gets="create 0.0 demand, limit_reached"
    ),
    "two needs share the operation slots": both(
        [Pod(0, group=0), Pod(1, group=1)], (), slots=1, gets="create 0.0 demand, no_operation_slot"
    ),
    "a failed pool of another need is no record of this one": both(
        [Pod(1, group=1)], [ERROR.but(key="a")], gets="create 0.0 demand"
    ),
    "a taint that the pods do not tolerate": waits([Pool(0, taint="a")], gets="create 0.1 demand, delete 0.0"),
    "a stray goes after two ticks": scene(on("0.0", 0), [Pool(0), Pool(0, 7, shape="old", spare_before=False)]),
    "a stray in use": scene([*on("0.0", 0), Pod("x", "0.7", ours=False)], [Pool(0), Pool(0, 7, shape="old")]),
    "a pod that the spec has no more holds its pool": scene(
        [*on("0.0", 0), Pod("y", "1.0", group=NO_NEED)], fleet(2)
    ),
    "too many, and still moving": scene(on("0.0", 0), [Pool(0), Pool(1, state="RECONCILING")]),
    "the highest slot is too many first": scene((), fleet(3), gets="delete 1.0, delete 2.0"),
    "the pool that is not whole is too many first": scene(
        (), [Pool(0, nodes=2, word="lost"), Pool(1)], gets="delete 0.0"
    ),
    "within the grace a record with a successor goes": scene((), [ERROR, NEW], suspended=200, gets="delete 0.0"),
    "within the grace the newest record stays": scene((), [ERROR], suspended=200),
    "within the grace an elastic pool with a part of its nodes stays beside its successor": scene(
        (), [GPU.but(nodes=1, maximum=1), GPU.but(attempt=1, nodes=2, maximum=2)], ELASTIC_LIST, suspended=200
    ),
    "within the grace an elastic pool without a node goes": scene(
        (),
        [GPU.but(nodes=0, maximum=1), GPU.but(attempt=1, nodes=2, maximum=2)],
        ELASTIC_LIST,
        suspended=200,
        gets="delete any.0",
    ),
    "a pod beside its whole pool, unplaced for long": scene(
        [*on("0.0", 0, 3), Pod(0, age=1000)], fleet(1), gets="pod_unplaced"
    ),
    "a taken pool that fails is not the one left out": scene(
        [Pod(0), *FOREIGN, Pod("y", "1.0", ours=False)], [ERROR.but(error=9), Pool(1)], gets="paused, pool_taken"
    ),
    "a terminating pod holds its pool": scene(on("0.0", 0, 1, held="terminating"), fleet(1), over=True),
    "a terminating pod that is overdue does not": scene(
        on("0.0", 0, 1, held="terminating", overdue=True), fleet(1), over=True, gets="delete 0.0"
    ),
    "a replaced pod waits for its own pool": scene([*on("0.0", 0, 1, held="terminating"), Pod(0)], fleet(1)),
    "Go pool, failed, too few others": scene(
        [*on("1.0", 1), Pod(0)], [GO.but(state="ERROR", nodes=0), Pool(1)], most=2, gets="create 0.0 demand"
    ),
    "Go pool, failed, and an attempt of slot 0 lives": scene(
        [*on("0.3", 1), Pod(0)], [GO.but(state="ERROR", nodes=0), Pool(0, 3)], most=2, gets="create 1.0 demand"
    ),
    "Go pool, in use, JobSet over": scene(on("go", 0, 1), [GO], over=True),
    "a reservation's record in use stays": scene(
        [*HUNG, Pod("x", "0.0", ours=False)], [LOST], ways=("reservation",)
    ),
    "a pool of GPUs that lost a host is held by its pods": scene(
        [pod.but(shape="gpu") for pod in HUNG],
        [LOST.but(shape="gpu")],
        Need(shape="gpu", list=("reservation",)),
        gets="host_lost, pool_goes_first",
    ),
    "the taint of the accelerator": waits([Pool(0, taint="google.com/tpu")]),
    "the same on a Go pool in a restart gap": scene((), [GO.but(taint="google.com/tpu")]),
    "beyond what the workload may have, what runs comes first": scene(
        (*on("0.0", 0), Pod(1)), fleet(1), gets="slice_doubled"
    ),
    "Go pool, failed with machines that fill the limit": waits(
        [GO.but(state="ERROR")], limit=4, gets="delete go, limit_reached"
    ),
    "a slot of another need is not this one's": both(
        [Pod(0, group=0), *on("0.1", 1, group=1)], [ERROR.but(key="a"), SPOT_POOL.but(attempt=1)], gets="paused"
    ),
    "an empty pool with a failed successor is no help, though GKE tries again": waits(
        [EMPTY.but(word=""), EMPTY.but(attempt=1, candidate=1)],
        ways=LIST,
        gets="create 0.2 spot empty round=1, delete 0.0, switch-off 0.1",
    ),
    "a failed successor of a pool that has lost a host is its record": scene(
        [Pod(0, age=60)], [LOST.but(error=300), ERROR.but(attempt=1)], ways=LIST
    ),
    "a pool that lost its hosts is no help to a slice that runs in part on its failed successor": scene(
        [Pod(0, "0.1"), Pod(0)],
        [LOST.but(error=300), ERROR.but(attempt=1, nodes=2)],
        ways=LIST,
        gets="create 0.2 demand empty, delete 0.0, host_lost",
    ),
    "elastic: a stranger uses its node, so the pool gets one more": scene(
        [Pod(0), Pod("x", "any.0", ours=False)],
        [GPU.but(nodes=1, maximum=1)],
        ELASTIC.but(wants=1),
        gets="raise any.0 2",
    ),
    "elastic: a record of a need that wants no more nodes goes": scene(
        [], [GPU.but(nodes=0, maximum=0)], ELASTIC.but(wants=0), gets="delete any.0"
    ),
    "elastic: strangers use more nodes than it wants": scene(
        [Pod(0), *on("any.0", "x", 3, ours=False)], [GPU], ELASTIC.but(wants=1), gets="raise any.0 4"
    ),
    "a pool that does not fit the pods on it is not replaced when it loses a host": both(
        [Pod(0, "0.0", age=8000, group=1), Pod(0, age=700, group=1)], [LOST.but(key="a")]
    ),
    "its own pool has lost a host, so the other one stays": scene(
        on("0.0", 0, 3), [Pool(0, nodes=3, word="lost", error=10), Pool(1)]
    ),
}


QUEUES: dict[str, Scene] = {
    "gang: flex-start is skipped": scene(ways=("flex", "spot"), **GANG, gets="create 0.0 spot"),
    "gang: flex-start is all there is": scene(ways=("flex",), **GANG, gets="check_retry, paused"),
    "gang: a spec that can never be served": scene(
        need=Need(never="shape_unsupported"), **GANG, gets="check_rejected, shape_unsupported"
    ),
    "gang: a flavor that can never be served": scene(
        need=Need(never="shape_unsupported", of_flavor=True), **GANG, gets="check_retry, shape_unsupported"
    ),
    "gang: room for one of its needs": Scene(
        (PLAIN, SPOT), (), (), limit=7, suspended=9000, queue="quota", gets="limit_reached"
    ),
    "gang: room for both needs": Scene(
        (PLAIN, SPOT), (), (), limit=8, suspended=9000, queue="quota", gets="create 0.0 demand, create 0.0 demand"
    ),
    "gang: what is held is within its time": scene(
        (), fleet(1), most=2, part_held=800, limit=4, **GANG, gets="limit_reached"
    ),
    "gang: it holds nothing, so nothing is given back": scene(
        most=2, part_held=900, limit=4, **GANG, gets="limit_reached"
    ),
    "gang: every try failed, so others get its quota": scene(
        (),
        [ERROR.but(age=20), ERROR.but(age=20, slot=1)],
        most=2,
        part_held=900,
        **GANG,
        gets="check_retry, paused",
    ),
    "each host of a slice has a second pod": scene((*on("0.0", 0), *[Pod(0)] * 4), fleet(1), gets="slice_doubled"),
    "the head of a slice waits beside its hosts": scene((*on("0.0", 0), Pod(0)), fleet(1)),
    "the second pod is there before the first has ended": scene(
        (*on("0.0", 0, held="terminating"), *[Pod(0)] * 4), fleet(1)
    ),
    "gang: nodes are missing": scene((), [Pool(0, nodes=3, word="lost", error=10)], **GANG),
    "gang: none is too many": scene((), fleet(3), **GANG, gets="check_ready"),
    "gang: after our Retry warm pools go at once": scene(
        (), fleet(1), suspended=9000, queue="none", retried=True, warm=True, gets="delete 0.0"
    ),
    "waits in the queue beyond the grace": scene((), fleet(1), suspended=9000, queue="none", gets="delete 0.0"),
}
