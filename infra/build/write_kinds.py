#!/usr/bin/env python3
"""Writes docs/kinds.md from the table of kinds (shared/core/kinds/table.py); a test says when it is out of date.

Run as ``python -m infra.build.write_kinds`` from the repository's root.
"""

from __future__ import annotations

from pathlib import Path

from shared.core.kinds.table import KINDS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/kinds.md"
_HEAD = """# Kinds of workload

Written by `python -m infra.build.write_kinds` from `shared/core/kinds/table.py`; do not edit. Why there is one table:
[decision 0012](decisions/0012-table-of-kinds.md). What proves each cell, on which controller and version: [kinds-proof.md](kinds-proof.md).

| kind | API | pods that speak | slice | over when | released when |
|---|---|---|---|---|---|
"""
_TAIL = """
*Pods that speak*: the exporter reports one of them per slice, and the functions answer no other. *Slice*: what gets one node pool of its own, and its name.
*Over when*: all pools of the workload go, once no pod of it is left on them. *Released when*: besides that, and besides its deletion, which releases the pools of every kind.

Exporter and functions serve every kind of the table. The setting `TPU_PROVISIONER_KINDS` of each (comma-separated) serves fewer; pools of a kind that is left out are kept.
Workloads that wait in a queue of Kueue ask for nothing: [kueue.md](kueue.md).
What holds for Ray's objects, with the versions of KubeRay: [ray.md](ray.md).
A kind whose API is not installed is looked for every few seconds; where it is expected (JobSet), the exporter is not ready without it.

## What is refused

Whatever a pod's owner wrote, nothing is made that could not serve it: the reason is an Event on the pod and on its workload, a log record with `reason` (which
the log-based metrics count), and a heading of the [runbook](runbook.md).

| what is wrong | reason | where it is said |
|---|---|---|
| pods per slice (`numOfHosts`, `size`, `replicas`, `parallelism`) that are not the topology's hosts | `hosts_differ` | workload and pod |
| chips that match no machine; an unknown accelerator or topology | `shape_unsupported` | workload and pod |
| a GPU type that is unknown | `gpu_unknown` | workload and pod |
| more GPUs than any machine of the type has | `shape_unsupported` | workload and pod |
| chips or GPUs that are no whole number: `google.com/tpu: 1.5` | `shape_unsupported` | workload and pod; the API server refuses it first where it sees it |
| several hosts from a Deployment or a bare pod, which make no slice | `hosts_differ` | workload and pod |
| a StatefulSet of several hosts whose pods come in turn | `slice_unknown` | workload and pod |
| a Job of several pods without index; Ray pods of several hosts that name no replica; a Ray head that asks for accelerators | `slice_unknown` | workload and pod |
| a pod of an earlier shape of its Deployment or StatefulSet | `slice_unknown` | workload and pod |
| the workload is gone, or another one has its name by now (however often) | `owner_gone` | pod |
| the controller is of no kind of the table, is a pod (be it itself), or is a Job that belongs to some other object | `owner_kind_unknown` | pod (and Job) |

No chain of owners is followed: the first controller that a pod names decides, so a chain that loops or leads nowhere costs nothing. A ReplicaSet without Deployment is
refused by name: make it a Deployment. Pods of DaemonSets and of the kubelet itself belong to their node and are never demands.

## Pools of one's own

A pool is made for one slice, or for the pods of one workload; the scheduler does not know that. It binds whoever comes first, so any pod of the same shape may land there: of a
Deployment, a bare pod, another JobSet. Then the one that asked waits, and past the grace its job says so (`pool_taken`). What keeps them apart:

| | how | keeps its pods on its own pools | keeps others off them |
|---|---|---|---|
| any kind | a node label of one's own in the pods' `nodeSelector`, as `example.com/workload: my-job`: its pools are made with that label | yes | no |
| JobSet | the annotations `alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool` and `alpha.jobset.sigs.k8s.io/node-selector: "true"` | yes, each slice on its own | yes, by a taint |
| JobSet | the [pinning policy](decisions/0009-pinning.md) of the cluster (Kubernetes 1.36) | yes, each slice on its own | no |
| JobSet, LeaderWorkerSet, Ray | exclusive placement; GKE's Ray webhook | no, but a slice on one pool | only slices of its own kind, once it is there |

So let every workload of a shape that several owners use select a label of its own: then nobody takes from anybody. The label's value may be anything that differs from workload to workload;
its key must be of your own domain. A workload of several slices needs exclusive placement (or Ray's affinities) besides, for the label is the same for all of them.
Exclusive placement of different kinds does not see each other: the leaders of a JobSet, a LeaderWorkerSet and a Ray replica can stand on one pool, and none of the three ever gets whole.

## Pathways

A PathwaysJob (`pathways-job.pathways.domain/v1`) is served through the JobSet that its controller makes under its name; Events are written on that JobSet, not on the PathwaysJob.
A head on a CPU node needs no pool. A head that selects the nodes of its workers (`colocate_head_with_workers`) is of their first slice: one pool per slice, none for the head. From
version 0.11 on JobSet keeps exclusive workers off a pool where a pod of another Job and of the same priority runs, and so off their own head's: give the workers a priority class of
their own (`workers[].priorityClassName`), or the head gets a pool to itself. The PathwaysJob controller itself is not run in our tests: they use the JobSets that it writes.

## A further kind

1. `shared/core/kinds/<kind>.py`: one constant of type `Kind`, every field of which says what it answers. `jobset.py` is the pattern; `objects.py` reads JSON.
2. Its name in `KINDS`, before any kind whose objects it makes. Its `mark`, the label on everything that it makes, keeps these out of the later kinds' lists.
3. `tests/unit/test_kind_<kind>.py`; its name in `docs/events.schema.json`; `python -m infra.build.write_kinds`.
   Scenarios in `tests/kinds`, marked with what they prove (`proves`, see the end of [kinds-proof.md](kinds-proof.md)); `python -m tests.kinds.proofs --write`.
   Run them, and `python -m tests.lives.table --write kinds` for [GKE's calls](lives-kinds.md).
4. The rights to get, list and watch it in `infra/kubernetes/base`, by which the tests of rights and `doctor` go.
"""


def render() -> str:
    """Return the document."""
    rows = (
        (
            kind.name,
            f"`{kind.api_version}`",
            kind.text.speakers,
            kind.text.slice,
            kind.text.over,
            kind.text.released,
        )
        for kind in KINDS
    )
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + _TAIL


if __name__ == "__main__":
    DOCUMENT.write_text(render(), encoding="utf-8")
