"""Writes docs/kinds.md from shared/core/kinds/table.py; a test compares the two.

Run as ``python -m infra.build.write_kinds`` from the repository's root.
"""

from __future__ import annotations

from pathlib import Path

from shared.core.kinds.table import KINDS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/kinds.md"
_HEAD = """# Kinds of workload

`python -m infra.build.write_kinds` writes this page from `shared/core/kinds/table.py`; do not edit
it. [Decision 0012](decisions/0012-table-of-kinds.md) explains why there is one table.
[kinds-proof.md](kinds-proof.md) lists the test of each cell, with controller and version.

| kind | API | leader pods | slice | over when | released when |
|---|---|---|---|---|---|
"""
_TAIL = """
- *Leader pods*: the exporter reports one of them for each slice. The functions answer no other pod.
- *Slice*: what gets its own node pool, and its name.
- *Over when*: then all pools of the workload are deleted, when none of its pods is left on them.
- *Released when*: further reasons to delete the pool of a slice. The deletion of the workload
  releases the pools of every kind.

Exporter and functions serve every kind of the table. With the setting `TPU_PROVISIONER_KINDS`
(comma-separated) of both they serve fewer. Pools of other kinds are kept. A workload that waits in
a queue of Kueue gets no pool: [kueue.md](kueue.md). [ray.md](ray.md) has the details of Ray's
objects, with the versions of KubeRay. The exporter looks every few seconds for a kind whose API is
not installed. It is not ready without JobSet.

## What is refused

The provisioner creates no pool that cannot serve its pods. The reason is in an Event on the pod and
on its workload, in a log record (field `reason`, which the log-based metrics count), and in the
[runbook](runbook.md).

| what is wrong | reason | Event on |
|---|---|---|
| the number of pods for each slice (`numOfHosts`, `size`, `replicas`, `parallelism`) is not the number of hosts of the topology | `hosts_differ` | workload and pod |
| chips that match no machine; an unknown accelerator or topology | `shape_unsupported` | workload and pod |
| pods that select TPU nodes and neither request chips nor tolerate the taint `google.com/tpu`, also beside pods with chips; pods that ask for chips only by `resourceClaims` | `shape_unsupported` | workload and pod |
| an unknown GPU type | `gpu_unknown` | workload and pod |
| more GPUs than any machine of the type has | `shape_unsupported` | workload and pod |
| chips or GPUs that are no whole number: `google.com/tpu: 1.5` | `shape_unsupported` | workload and pod; the API server refuses most of them first |
| several hosts for a Deployment or a bare pod, which have no slices | `hosts_differ` | workload and pod |
| a StatefulSet of several hosts that creates its pods one after another | `slice_unknown` | workload and pod |
| a Job of several pods without index; Ray pods of several hosts that name no replica; a Ray head that requests TPUs; a LeaderWorkerSet whose leaders request accelerators that fit no pool with those of their workers | `slice_unknown` | workload and pod |
| a required term about a node label of your own that no value satisfies; networks that the machine does not have ([placement.md](placement.md)) | `selector_unsupported` | workload and pod |
| a pod that differs from its workload's template in what its nodes depend on: of an earlier template, changed by a webhook, or forged | `pod_contradicts_spec` | workload and pod |
| the workload is deleted, or another one has its name now | `owner_gone` | pod |
| the controller is of no kind of the table, is a pod, or is a Job that belongs to another object | `owner_kind_unknown` | pod (and Job) |

The provisioner reads only the first controller that a pod names, so a loop or a long chain of
owners costs nothing. A ReplicaSet without a Deployment is refused by name: make it a Deployment.
DaemonSet and static pods are not provisioned for.

## Pools of one's own

A pool is created for one slice, or for the pods of one workload. The scheduler does not know that.
It binds any pod of the same shape to the pool: of a Deployment, a bare pod, another JobSet. Then
the slice waits, and after the grace its workload gets the reason `pool_taken`. Also a pool that is
about to be given back can get such a pod: its workload is over or suspended, or waits for its
[capacity before pods](capacity.md#capacity-before-pods). Nodes are closed to new pods before a
deletion only where pools [stay idle](warm-slices.md). Such a pool stays, and you pay for it, until
the pod ends (`pool_in_use`). A pod that is bound in the seconds between the last look and GKE's
deletion is deleted with the pool. These keep pods apart:

| | how | keeps its pods on its own pools | keeps other pods off them |
|---|---|---|---|
| any kind | a node label of your own in the pods' `nodeSelector`, such as `example.com/workload: my-job`; the pools get this label | yes | no |
| JobSet | the annotations `alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool` and `alpha.jobset.sigs.k8s.io/node-selector: "true"` | yes, each slice on its own | yes, by a taint |
| JobSet | the [pinning policy](decisions/0009-pinning.md) of the cluster (Kubernetes 1.36) | yes, each slice on its own | no |
| JobSet, LeaderWorkerSet, Ray | exclusive placement; GKE's Ray webhook | no, but each slice on one pool | only slices of its own kind, when it runs there |

If several owners use the same shape, let each workload select a label of its own, so that workloads
cannot take each other's nodes. The value must differ for each workload. The key must be in your own
domain. A workload of several slices also needs exclusive placement (or Ray's affinities), because
all its slices have the same label. Exclusive placement works only inside one kind: the leader pods
of a JobSet, a LeaderWorkerSet and a Ray replica can run on one pool, and then none of the three
slices is ever complete.

## Pathways

A PathwaysJob (`pathways-job.pathways.domain/v1`) is served through the JobSet that its controller
creates under the same name. Events are on that JobSet, not on the PathwaysJob. A head on a CPU node
needs no pool. A head that selects the nodes of its workers (`colocate_head_with_workers`) belongs
to their first slice: one pool for each slice, and none for the head. Since version 0.11, JobSet
keeps exclusive workers off a pool on which a pod of another Job with the same priority runs, and so
off the pool of their own head. Give the workers their own priority class
(`workers[].priorityClassName`); otherwise the head gets its own pool. Such a head needs a
toleration of `google.com/tpu` in `controller.template`, because it requests no chips.

Our tests do not run the PathwaysJob controller, but use the JobSets that it creates. Other
controllers are built from their Go modules. This one cannot be: its `go.mod` declares the path
`pathways-job`, which is no address, so the Go tools refuse it as `github.com/google/pathways-job`,
and the module proxy that our builds reach answers "not available" (403) for v0.1.4 (2026-11-23).

## A further kind

The list is frozen. [One more kind](develop/add-a-kind.md) is one module, one row of the table and
its rights, in your own copy. A kind of this project also has a test `test_kind_<kind>.py` in
`tests/unit`, and scenarios in `tests/kinds`, marked with what they prove (`proves`, see the end of
[kinds-proof.md](kinds-proof.md)): `python -m tests.kinds.proofs --write`. For
[GKE's calls](lives-kinds.md), run `python -m tests.lives.table --write kinds`.
"""


def render() -> str:
    """Return the document."""
    rows = (
        (
            kind.name,
            f"`{kind.api_version}`",
            kind.text.leaders,
            kind.text.slice,
            kind.text.over,
            kind.text.released,
        )
        for kind in KINDS
    )
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + _TAIL


if __name__ == "__main__":
    DOCUMENT.write_text(render(), encoding="utf-8")
