"""What is run: one case per manifest, in a namespace of its own, and the controllers that it takes.

A case's workloads are the documents of a kind of the table, and those that make such workloads;
other objects of the manifest are applied with them. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo.loop.demo_manifests import BadManifest, Document
from shared.core.kinds.table import KINDS

CONTROLLERS = {"ray.io": "kuberay-1.6", "leaderworkerset.x-k8s.io": "lws-0.7"}
"""By API group, the further controller of `standins.controlplane` that makes its pods."""
REAL_ONLY = "apps"
"""API group whose controllers are Kubernetes' own, and not part of the embedded cluster."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One manifest and what was seen of it; moments are unix seconds, 0 until then."""

    path: Path
    namespace: str
    documents: tuple[Document, ...]
    workloads: tuple[Document, ...]
    controllers: frozenset[str]
    asked_at: float = 0.0
    """GKE accepted the first CreateNodePool."""
    runs_at: float = 0.0
    """Every pod that asks for an accelerator runs, and there is one for each node of its pools."""
    let_go_at: float = 0.0
    given_back_at: float = 0.0
    """GKE has no pool of it any more."""
    pools: dict[str, str] = field(default_factory=dict)
    """Every pool that it ever had, and its machine type."""
    nodes: int = 0
    """Of its pools when all pods ran."""
    refusals: list[str] = field(default_factory=list)
    calls: int = 0
    """Calls to GKE about its pools."""

    @property
    def who(self) -> str:
        """Its workloads, as people read them."""
        return ", ".join(f"{each.kind} {each.name}" for each in self.workloads)

    @property
    def over(self) -> bool:
        """Whether nothing more is to come of it."""
        return bool(self.given_back_at)


def list_cases(documents: Iterable[Document]) -> list[Case]:
    """Return one case per manifest that has a workload, in their order.

    Raises BadManifest: there is none at all.
    """
    by_path: dict[Path, list[Document]] = {}
    for document in documents:
        by_path.setdefault(document.path, []).append(document)
    cases = [_make_case(path, found) for path, found in by_path.items() if any(map(is_workload, found))]
    if not cases:
        valid = ", ".join(kind.name for kind in KINDS)
        raise BadManifest(
            f"{', '.join(map(str, by_path))}: contains no workload; valid: {valid}, or what makes them"
        )
    return cases


def is_workload(document: Document) -> bool:
    """Return whether a document is of a served kind, or of an API group with a known controller."""
    known = any((document.kind, document.api_version) == (kind.name, kind.api_version) for kind in KINDS)
    return known or _group(document) in CONTROLLERS


def leave_out(
    cases: Sequence[Case], missing: Iterable[str], *, embedded: bool = False
) -> tuple[list[Case], list[str]]:
    """Return the cases that these controllers can run, and a sentence for each other case."""
    absent = set(missing)
    left, messages = [], []
    for case in cases:
        lacks = sorted(case.controllers & absent)
        if embedded and (lacks or any(_group(each) == REAL_ONLY for each in case.workloads)):
            messages.append(
                f"left out: {case.who} ({case.path.name}): needs the real control plane: --cluster real"
            )
        elif lacks:
            build = " ".join(f"--with {name}" for name in lacks)
            messages.append(
                f"left out: {case.who} ({case.path.name}): {', '.join(lacks)} is not built; "
                f"build it once, which takes minutes: python -m standins.controlplane build {build}"
            )
        else:
            left.append(case)
    return left, messages


def find_problems(case: Case) -> list[str]:
    """Return what a case that should be over still lacks."""
    steps = (
        (case.asked_at, "no node pool was requested"),
        (case.runs_at, "not all of its pods run"),
        (case.given_back_at, f"pools are left: {', '.join(case.pools)}"),
    )
    missing = next((text for at, text in steps if not at), "")
    why = f" ({case.refusals[-1]})" if missing and case.refusals else ""
    return [f"{case.who}: {missing}{why}"] if missing else []


def _make_case(path: Path, documents: Sequence[Document]) -> Case:
    workloads = tuple(filter(is_workload, documents))
    namespace = f"kinds-{path.stem}"[:63].rstrip("-")
    moved = {id(each): _move(each, namespace) for each in documents}
    return Case(
        path=path,
        namespace=namespace,
        documents=tuple(moved.values()),
        workloads=tuple(moved[id(each)] for each in workloads),
        controllers=frozenset(CONTROLLERS[group] for each in workloads if (group := _group(each)) in CONTROLLERS),
    )


def _move(document: Document, namespace: str) -> Document:
    """Return the document in the case's namespace, as ``kubectl --namespace`` does."""
    metadata = document.body["metadata"] | {"namespace": namespace}
    return Document(document.path, document.number, document.body | {"metadata": metadata})


def _group(document: Document) -> str:
    return document.api_version.rpartition("/")[0]
