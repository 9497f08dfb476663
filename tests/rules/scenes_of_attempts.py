"""Scenes of the plan: tries, records and pauses, pools that GKE's autoscaler sizes, and ends."""

from __future__ import annotations

from tests.rules.plan_scenes import (
    BEGUN,
    ELASTIC,
    ELASTIC_LIST,
    EMPTY,
    ERROR,
    FOREIGN,
    GANG,
    GO,
    GPU,
    HALF,
    HUNG,
    IDLE_READY,
    LIST,
    LOST,
    NEW,
    PART,
    STUCK,
    Need,
    Pod,
    Pool,
    Scene,
    fleet,
    on,
    scene,
    waits,
)

UNREAD = EMPTY.but(unread="word")

ATTEMPTS: dict[str, Scene] = {
    "the next way is refused: the pause comes first": waits([ERROR], ways=LIST, refused=(1,), gets="paused"),
    "the next way is refused, and the pause is over": waits(
        [ERROR.but(error=70)], ways=LIST, refused=(1,), gets="create 0.1 spot empty round=1"
    ),
    "the pause has doubled, and is over": waits(
        [ERROR.but(attempt=1, candidate=1, round=2, error=250)], ways=LIST, gets="create 0.2 spot empty round=3"
    ),
    "a list that got shorter begins again after its pause": waits(
        [ERROR.but(attempt=4, candidate=4, error=70)], ways=LIST, gets="create 0.5 spot empty round=1"
    ),
    "a pool of the slot was whole: the pause is short again": scene(
        HUNG, [LOST.but(round=5)], gets="create 0.1 demand round=1, host_lost"
    ),
    "a failure between useless pools forgets none": waits(
        [ERROR.but(useless=2, error=70)], gets="create 0.1 demand round=1 useless=2"
    ),
    "its pool had to go first: operations tell the way": waits(
        ways=LIST, operations=((0, 0, 300),), gets="create 0.1 demand empty"
    ),
    "a younger pod begins with the first way": scene(
        [Pod(0, age=100)], ways=LIST, operations=((0, 0, 300),), gets="create 0.1 spot empty"
    ),
    "a pod younger than the create, older than the delete": scene(
        [Pod(0, age=100)],
        ways=LIST,
        operations=((0, 0, 300),),
        deletions=((0, 0, 90),),
        gets="create 0.1 demand empty",
    ),
    "the third useless pool was deleted": waits(deletions=((0, 2, 100),), gets="pool_useless"),
    "a pod is younger than that delete": scene(
        [Pod(0, age=50)], deletions=((0, 2, 100),), gets="create 0.0 demand"
    ),
    "a useless pool that was not the last was deleted": waits(
        operations=((0, 0, 1300),), deletions=((0, 1, 100),), gets="create 0.1 demand useless=1"
    ),
    "a useless pool had to go first: operations tell how often": scene(
        [Pod(0, age=5000)],
        operations=((0, 0, 1300), (0, 1, 1200)),
        deletions=((0, 1, 100, 1),),
        gets="create 0.2 demand useless=2",
    ),
    "a pool that went before it could help was not useless": scene(
        [Pod(0, age=5000)], operations=((0, 0, 800),), deletions=((0, 0, 100),), gets="create 0.1 demand round=1"
    ),
    "a pod that is younger than a pool may have been served by it": scene(
        [Pod(0, age=1200)], operations=((0, 0, 1300),), deletions=((0, 0, 100),), gets="create 0.1 demand round=1"
    ),
    "a pool stands that no list shows yet": waits(
        operations=((0, 0, 300),), operation_state="stands", gets="pool_in_progress"
    ),
    "a create that failed is on its way no more": waits(
        ways=LIST, operations=((0, 0, 3),), operation_state="failed", gets="create 0.1 demand empty"
    ),
    "a create that failed and left no pool was the last way: the pause": waits(
        operations=((0, 0, 30),), operation_state="failed", gets="paused"
    ),
    "a reservation's pools went first twice: the next pause is longer": scene(
        [Pod(0, age=5000)],
        ways=("reservation",),
        operations=((0, 0, 800), (0, 1, 500)),
        deletions=((0, 0, 600), (0, 0, 100, 1)),
        gets="create 0.2 reservation round=2",
    ),
    "a pool on its way serves one of two slices": scene(
        [Pod(0), Pod(1)],
        most=2,
        operations=((0, 0, 3),),
        operation_state="stands",
        gets="create 1.0 demand, pool_in_progress",
    ),
    "without a word a pool has an hour": scene([Pod(0, age=9000)], [Pool(0, nodes=0, age=3500)]),
    "without a word for more than an hour": scene(
        [Pod(0, age=9000)], [Pool(0, nodes=0, age=3700)], gets="create 0.1 demand round=1"
    ),
    "nobody waits: nothing is short": scene((), [Pool(0, nodes=0, age=9000)]),
    "a pod younger than GKE's word counts from the word": scene(
        [Pod(0, age=10)],
        [EMPTY.but(error=300, age=400)],
        ways=LIST,
        gets="create 0.1 demand empty, switch-off 0.0",
    ),
    "the single way of an autoscaled pool stays": scene([Pod(0, age=9000)], [EMPTY.but(error=9000, age=9000)]),
    "what is switched off counts for nothing without GKE's word": scene(
        [Pod(0, age=100)], [EMPTY.but(maximum=0, word="", age=100)], ways=LIST, gets="create 0.1 demand empty"
    ),
    "flex-start has its own wait": scene(
        [Pod(0, age=20000)],
        [Pool(0, nodes=0, age=700, autoscaled=True)],
        Need(list=("flex", "spot"), wait=600),
        gets="create 0.1 spot empty, switch-off 0.0",
    ),
    "useless, but another's pod runs there": scene(
        [Pod(0, age=2000), *FOREIGN], [IDLE_READY], takers_served=True, gets="pod_unplaced"
    ),
    "a stranger took a host of a slice that runs": scene(
        [Pod(0, "0.0"), Pod(0), *FOREIGN], [IDLE_READY], gets="pool_taken"
    ),
    "useless: no successor comes, and another may need its machines": scene(
        [Pod(0, age=2000)], [IDLE_READY.but(ready=1850, age=1900)], refused=(0,), gets="delete 0.0, paused"
    ),
    "useless: its successor may come still": scene(
        [Pod(0, age=2000)], [IDLE_READY.but(ready=1750, age=1900)], refused=(0,), gets="paused"
    ),
    "a slice began on a pool that got some hosts": scene(BEGUN, [HALF, NEW], gets="delete 0.0"),
    "a slice began on one, and it has no successor yet": scene(BEGUN, [HALF], gets="paused"),
    "a slice began on one with a pod of others": scene([*BEGUN, Pod("x", "0.0", ours=False)], [HALF, NEW]),
    "a slice began on one of GPUs, whose hosts serve by themselves": scene(
        [pod.but(shape="gpu") for pod in BEGUN], [HALF.but(shape="gpu"), NEW.but(shape="gpu")], Need(shape="gpu")
    ),
    "useless: the successor is listed": scene([Pod(0, age=2000)], [IDLE_READY, NEW], gets="delete 0.0"),
    "two reservations: the successor first": scene(
        HUNG, [LOST], ways=("reservation", "spot"), gets="create 0.1 spot empty, host_lost"
    ),
    "a reservation's failed pool goes after the pause": waits([ERROR], ways=("reservation",), gets="paused"),
    "its machines would not be enough": waits(
        [EMPTY.but(nodes=2, ready=190)], ways=LIST, limit=4, used=4, gets="limit_reached"
    ),
    "a Go pool is nobody's earlier try": waits(
        [GO.but(state="ERROR", nodes=0, error=1, word="cause")], gets="create 0.0 demand"
    ),
    "a reservation is free only when its pool is gone": waits(
        [LOST.but(state="STOPPING")], ways=("reservation",), gets="pool_goes_first"
    ),
    "a pool that goes holds its own reservation only": waits(
        [LOST.but(state="STOPPING")], ways=LIST, gets="create 0.1 spot empty"
    ),
    "stop: nothing goes first for a successor that does not come": scene(
        HUNG, [LOST], ways=("reservation",), stop="no-create", gets="host_lost, stopped"
    ),
}


ELASTICS: dict[str, Scene] = {
    "elastic: its successor is listed, so it gets no more": scene(
        (*on("any.0", 0, 2), *on("any.1", 0, 1), Pod(1)),
        [GPU.but(nodes=2, maximum=2), GPU.but(attempt=1, nodes=1)],
        ELASTIC.but(wants=5),
    ),
    "elastic: its successor lacks nodes, while its pods run on the one before": scene(
        (*on("any.0", 0, 1), Pod(0, age=800)),
        [GPU.but(nodes=1, maximum=1), STUCK.but(attempt=1, candidate=1, nodes=0)],
        ELASTIC_LIST.but(wants=2),
        gets="create any.2 spot max=1 round=1, switch-off any.1",
    ),
    "elastic: strangers hold its only node, and GKE has no other: the next way gets all": scene(
        (Pod("x", "any.0", ours=False), Pod(0, age=800), Pod(0, age=800)),
        [STUCK.but(maximum=3)],
        ELASTIC_LIST.but(wants=2),
        gets="create any.1 demand max=2, lower any.0 1",
    ),
    "elastic: a record goes when the pool before it has all that the spec wants": scene(
        on("any.0", 0, 2),
        [GPU.but(nodes=2, maximum=2), GPU.but(attempt=1, nodes=0, maximum=0)],
        ELASTIC.but(wants=2),
        gets="delete any.1",
    ),
    "elastic: more, and no pod waits": scene(on("any.0", 0, 3), [GPU], ELASTIC.but(wants=5)),
    "elastic: fewer, while GKE still makes nodes": scene(
        on("any.0", 0, 1), [GPU.but(nodes=1, maximum=5, machines=3)], ELASTIC.but(wants=1), gets="lower any.0 3"
    ),
    "elastic: fewer, and GKE does not say how many nodes it makes": scene(
        on("any.0", 0, 1), [GPU.but(nodes=1, maximum=5, machines=None)], ELASTIC.but(wants=1)
    ),
    "elastic: some of its pods run on static nodes": scene(
        (*on("static", 0, 2), Pod(1)), (), ELASTIC, gets="create any.0 demand max=1"
    ),
    "elastic: no room at all": waits(need=ELASTIC, limit=0, gets="limit_reached"),
    "elastic: more, no room": scene(
        (*on("any.0", 0, 3), Pod(1)), [GPU], ELASTIC.but(wants=5), limit=3, gets="limit_reached"
    ),
    "elastic: more, room for one": scene(
        (*on("any.0", 0, 3), Pod(1)), [GPU], ELASTIC.but(wants=5), limit=4, gets="raise any.0 4, limit_reached"
    ),
    "elastic: more, while GKE works on it": scene(
        (*on("any.0", 0, 3), Pod(1)), [GPU.but(busy=True)], ELASTIC.but(wants=5)
    ),
    "elastic: more than GKE allows": waits(need=ELASTIC.but(wants=4000), gets="create any.0 demand max=1000"),
    "elastic: stopped, and fewer": scene(
        on("any.0", 0, 1),
        [GPU.but(maximum=5, nodes=1)],
        ELASTIC.but(wants=1),
        stop="no-create",
        gets="lower any.0 1",
    ),
    "elastic: short, the next way gets the rest": scene(
        (*on("any.0", 0, 1), Pod(1, age=800)),
        [STUCK],
        ELASTIC_LIST,
        gets="create any.1 demand max=2, lower any.0 1",
    ),
    "elastic: short, and GKE reports errors of its nodes": scene(
        (*on("any.0", 0, 1), Pod(1, age=800)),
        [STUCK.but(state="RUNNING_WITH_ERROR")],
        ELASTIC_LIST,
        gets="create any.1 demand max=2, lower any.0 1",
    ),
    "elastic: short without a node": scene(
        [Pod(0, age=800)], [STUCK.but(nodes=0)], ELASTIC_LIST, gets="create any.1 demand max=3, switch-off any.0"
    ),
    "elastic: a node came a moment ago": scene(
        (*on("any.0", 0, 1), Pod(1, age=800)), [STUCK.but(ready=60)], ELASTIC_LIST
    ),
    "elastic: it has all nodes and serves, nothing is useless": scene(
        (*on("any.0", 0, 2), Pod(1, age=6000)), [GPU], ELASTIC.but(wants=3)
    ),
    "elastic: all nodes, and none serves": scene(
        [Pod(1, age=6000)], [GPU.but(ready=1000)], ELASTIC, gets="create any.1 demand max=3 round=1 useless=1"
    ),
    "elastic: two pools, one is too many": scene(
        on("any.1", 0, 3), [GPU, GPU.but(attempt=1)], ELASTIC, gets="delete any.0"
    ),
    "part of a host: more": scene((*on("any.0", 0, 4), Pod(1)), [GPU], PART.but(wants=5), gets="raise any.0 5"),
    "part of a host: none, used": scene(on("any.0", 0, 1), [GPU], PART.but(wants=0)),
    "part of a host: none, warm": scene((), [GPU], PART.but(wants=0), warm=True, gets="mark any.0"),
    "elastic: over": scene((), [GPU], ELASTIC, over=True, gets="delete any.0"),
    "elastic: in the queue, room for all": scene(need=ELASTIC, limit=3, **GANG, gets="create any.0 demand max=3"),
    "elastic: in the queue, nodes are missing": scene((), [GPU.but(nodes=2)], ELASTIC, **GANG),
    "elastic: in the queue, all nodes": scene((), [GPU], ELASTIC, **GANG, gets="check_ready"),
}


ENDS: dict[str, Scene] = {
    "warm: an elastic pool without a node goes at once": scene(
        (), [GPU.but(nodes=0)], ELASTIC, over=True, warm=True, gets="delete any.0"
    ),
    "over: a status that is not known": scene((), [Pool(0, state="STATUS_UNSPECIFIED")], over=True),
    "warm: the label of the pool says so, its owner is gone": Scene(
        (), (), (Pool(0, warm=600),), over=True, gets="mark 0.0"
    ),
    "warm: not whole, so it goes at once": scene((), fleet(1, nodes=2), over=True, warm=True, gets="delete 0.0"),
    "warm: a pod runs there again": scene(on("0.0", 0), fleet(1, idle=100), gets="open 0.0"),
    "over: a stranger's pod runs there": scene(FOREIGN, fleet(1), over=True),
    "over: GKE still makes the pool": scene((), [Pool(0, state="PROVISIONING", nodes=0)], over=True),
    "unknown: nothing opens": scene(on("0.0", 0), fleet(1, idle=100), unknown=True),
}


ASKS: dict[str, Scene] = {
    "a young demand rests on no earlier create": scene(
        [Pod(0, age=10)], operations=None, gets="create 0.0 demand"
    ),
    "a young pod of an old workload may have lost a pool": scene(
        [Pod(0, age=10)], operations=None, owner_age=900, gets="asks operations"
    ),
    "an old demand may have lost a pool": waits(operations=None, gets="asks operations"),
    "a young demand follows a failed pool": scene(
        [Pod(0, age=10)], [Pool(0, state="ERROR", nodes=0)], ways=LIST, operations=None, gets="asks operations"
    ),
    "a pool that lacks nodes": waits([UNREAD], ways=LIST, gets="asks machines 0.0"),
    "a pool that is young": waits([UNREAD.but(age=30)], ways=LIST),
    "nobody waits for what a pool lacks": scene((), [UNREAD], ways=LIST),
    "an elastic pool that lacks nodes": waits(
        [GPU.but(nodes=1, unread="word")], ELASTIC, ways=LIST, gets="asks machines any.0"
    ),
    "a pool that ends": scene((), fleet(1, unread="users"), over=True, gets="asks users 0.0"),
    "a pool that is kept": scene(on("0.0", 0), fleet(1, unread="users")),
    "a slice waits beside its whole pool": waits(fleet(1, unread="users"), gets="asks users 0.0"),
    "a slice waits for its pool": waits(fleet(1, state="PROVISIONING", nodes=0, unread="users")),
    "a pool that is made smaller rests on no pod": scene(
        (), [GPU.but(nodes=0, unread="users")], ELASTIC.but(wants=0), gets="lower any.0 1"
    ),
    "a pool that is made smaller may still get nodes": scene(
        (), [GPU.but(nodes=0, unread="word")], ELASTIC.but(wants=0), gets="asks machines any.0"
    ),
    "a stopped plan asks for nothing": scene((), fleet(1, unread="users"), over=True, stop="report-only"),
}
"""A plan asks for a fact only where it decides, and has no acts until it has it."""
