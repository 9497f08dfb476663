"""Writes docs/evidence/field.md and its pictures from the records of the runs.

Pure but for the files.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.field.picture import NAMES, draw_fan_outs, draw_runs
from benchmarks.field.records import FanOut, Figures, Record, Side, derive_figures, find_minimum_seconds

PAGE = "field.md"
_LOAD_PER_CORE_MAX = 0.5
"""Above this, the page says that the machine had other work."""


def read_records(folder: Path) -> tuple[list[Record], list[FanOut]]:
    """Return the records of a folder: those of the runs, and those of the fan-out."""
    paths = sorted(folder.glob("*.json"))
    crowds = [path for path in paths if path.name.startswith("fan-out-")]
    runs = [msgspec.json.decode(path.read_bytes(), type=Record) for path in paths if path not in crowds]
    return runs, [msgspec.json.decode(path.read_bytes(), type=FanOut) for path in crowds]


def write_page(records: Sequence[Record], fans: Sequence[FanOut], folder: Path) -> None:
    """Write the page, and a picture for each size of more than one slice."""
    for name, text in render(records, fans).items():
        (folder / name).write_text(text, encoding="utf-8")


def render(records: Sequence[Record], fans: Sequence[FanOut]) -> dict[str, str]:
    """Return the text of each file, by name."""
    files, pictures = {}, []
    for title, runs in group_runs(records):
        if runs[0].slices > 1:
            name = f"field-{runs[0].slices}{'-killed' if runs[0].killed_at else ''}.svg"
            files[name] = draw_runs(runs)
            pictures.append(f"![{title}: a lane for each slice]({name})")
    ordered = sorted(fans, key=lambda each: each.limit)
    if ordered:
        files["field-fan-out.svg"] = draw_fan_outs(ordered)
    sections = [_INTRODUCTION, _describe_runs(records, fans), _RESULTS, _tabulate(records)]
    sections += [_PICTURES, *pictures, _tabulate_calls(records), _tabulate_memory(records)]
    if ordered:
        sections += [_FAN_OUT, _tabulate_fan_outs(ordered), "![1,000 creates](field-fan-out.svg)"]
    files[PAGE] = "\n\n".join([*sections, _NOT_COMPARABLE]) + "\n"
    return files


def group_runs(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Return the runs of each size with a title, the Go program first."""
    groups: dict[tuple[int, bool], list[Record]] = {}
    for record in sorted(records, key=lambda each: (bool(each.killed_at), each.slices, each.side)):
        groups.setdefault((record.slices, bool(record.killed_at)), []).append(record)
    return [(_title(slices, killed=killed), runs) for (slices, killed), runs in groups.items()]


def _title(slices: int, *, killed: bool) -> str:
    plural = "slice" if slices == 1 else "slices"
    return f"{slices} {plural}{', killed meanwhile' if killed else ''}"


def _describe_runs(records: Sequence[Record], fans: Sequence[FanOut]) -> str:
    days = sorted({datetime.fromtimestamp(each.applied_at, UTC).strftime("%Y-%m-%d") for each in records})
    machines = sorted({each.machine for each in records} | {each.machine for each in fans})
    programs = [
        _name_program(side, program)
        for side, program in sorted({(each.side, each.program) for each in records if each.program})
    ]
    loads = [each.load for each in records] + [each.load for each in fans]
    lines = [f"- **When and where**: {', '.join(days)}; {'; '.join(machines)}.", *programs]
    cores = int(machines[0].split()[0]) if machines else 1
    if loads and max(loads) > _LOAD_PER_CORE_MAX * cores:
        lines.append(
            f"- **The machine had other work**: before the runs {min(loads):.1f} to {max(loads):.1f}"
            " processes wanted a core.\n  Some runs took place side by side."
        )
    return "\n".join(lines)


def _name_program(side: Side, program: str) -> str:
    what, _, commit = program.partition(" at ")
    name = NAMES[side][0].upper() + NAMES[side][1:]
    return f"- **{name}**:\n  `{what}`\n  at `{commit}`."


def _write_table(head: str, rows: Iterable[Sequence[object]], *, texts: int = 0) -> str:
    """Return a table in Markdown; the first columns are texts, and all others numbers."""
    numbers = head.count(" | ") + 1 - texts
    ruler = "|" + " --- |" * texts + " ---: |" * numbers
    return "\n".join([f"| {head} |", ruler, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _tabulate(records: Sequence[Record]) -> str:
    head = (
        "run | provisioner | first create | last create | calls per slice of GKE | of Compute Engine "
        "| completed to first delete | completed to last delete | pools made | refused calls"
    )
    rows = []
    for title, runs in group_runs(records):
        for record in runs:
            figures = derive_figures(record)
            rows.append(
                (
                    title,
                    NAMES[record.side],
                    _seconds(figures.first_create),
                    _seconds(figures.last_create),
                    f"{figures.calls_per_slice:.1f}",
                    f"{figures.reads_per_slice:.1f}",
                    _seconds(figures.first_delete),
                    _last_delete(figures, record.slices),
                    figures.pools,
                    figures.refused,
                )
            )
    return _write_table(head, rows, texts=2)


def _tabulate_calls(records: Sequence[Record]) -> str:
    found = {id(each): derive_figures(each).calls for each in records}
    methods = sorted({method for calls in found.values() for method in calls})
    rows = [
        (title, NAMES[record.side], *(found[id(record)].get(method, 0) for method in methods))
        for title, runs in group_runs(records)
        for record in runs
    ]
    head = " | ".join(["calls of a run", "provisioner", *(f"`{each}`" for each in methods)])
    return f"{_CALLS}\n\n{_write_table(head, rows, texts=2)}"


def _tabulate_memory(records: Sequence[Record]) -> str:
    names = sorted({name for each in records for name in each.memory})
    rows = []
    for title, runs in group_runs(records):
        memory = {name: found for each in runs for name, found in each.memory.items()}
        shown = {name: f"{found.largest:.0f}, {found.together:.0f}" for name, found in memory.items()}
        rows.append((title, *(shown.get(name, "none") for name in names)))
    head = " | ".join(["run", *(f"`{name}`" for name in names)])
    return f"{_MEMORY}\n\n{_write_table(head, rows, texts=1)}"


def _tabulate_fan_outs(fans: Sequence[FanOut]) -> str:
    head = (
        "limit of operations | leaders | creates accepted | the last after | shortest possible | ratio "
        "| creates that GKE refused | virtual seconds per second"
    )
    rows = []
    for fan in fans:
        took, accepted = (fan.accepted_at[-1] - fan.started_at) * fan.speed, len(fan.accepted_at)
        minimum = find_minimum_seconds(accepted, fan.limit, fan.operation_seconds)
        ratio = f"{took / minimum:.2f}" if minimum else ""
        seconds = f"{took:.0f} s", f"{minimum:.0f} s"
        rows.append((fan.limit, fan.leaders, accepted, *seconds, ratio, fan.refused, f"{fan.speed:g}"))
    return _write_table(head, rows)


def _last_delete(figures: Figures, slices: int) -> str:
    if figures.last_delete is None:
        return f"{figures.deleted} of {slices} deleted when the run was ended"
    return _seconds(figures.last_delete)


def _seconds(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


_INTRODUCTION = """\
# Figures against the field

A user of JobSets on GKE would run the Go
[TPU Provisioner](https://github.com/ai-on-gke/tpu-provisioner) instead of this one. So both do the
same work here, on one machine and on the same local cloud. `make bench-field` runs them and writes
this page from the records in [field/](field/). It is not edited by hand.

## What ran

- **The work**: one JobSet of v6e slices of 4x4 chips, four hosts each, with exclusive placement.
  When all slices have run side by side for 30 s, all pods succeed at once, as those of one training
  job do. A run ends when the last pool is gone.
- **The local cloud**: the [real control plane](../control-plane.md) with JobSet, and the
  [fake GKE](../fake-gke.md) over REST. Creates and deletes take 60 s, a call of create 1.4 s. At
  most 20 operations run at once. All runs but the fan-out are in real time, because the Go program
  asks for its operations every 5 s.
- **Both provisioners** have their own defaults: for the Go program three pools at a time, for ours
  a sweep once a minute. Both run without leader election, so a killed one waits for no lease.
- **The Go program is unchanged.** It finds the fake GKE through a proxy and a metadata server, as
  Google's client libraries do (`benchmarks/field/google_edge.py`)."""

_RESULTS = """\
## Creates, deletes and calls

*First* and *last create* count from the first leader that is unschedulable to the moment when GKE
accepts the create. *Completed* is the condition of the JobSet. *Killed meanwhile*: all processes of
the provisioner get SIGKILL after the first accepted create, and are started again at once. A new
process of the Go program does not wait for the first three operations, so its last create comes
sooner. Ours sends some creates a second time, and GKE refuses those.

**What sets the pace.** The Go program makes three pools at a time and waits for each. Ours waits
for none. But GKE answers a create after 1.4 s, and Pub/Sub pushes four messages at a time at first.
It adds none while answers take longer than a second ([push
backoff](https://cloud.google.com/pubsub/docs/push#push_backoff))."""

_PICTURES = """\
## Slices over time

The Go program is above, ours below, on one time axis."""

_CALLS = """\
## Which calls

All calls from the creation of the JobSet until its last pool is gone. The Go program asks for each
operation until it ends. Ours asks for none: nothing waits for GKE. Ours reads the instance groups
of a pool once a minute while GKE creates it, to learn what GKE lacks. Those are calls of Compute
Engine, which have another quota."""

_MEMORY = """\
## Memory

In MiB: the highest RSS of one process, and then of all its processes, where shared pages are
divided among those that share them. `go-provisioner` and `exporter` run in the cluster all the
time. The others are Cloud Functions: each has a server and a worker, and costs nothing between
deliveries."""

_FAN_OUT = """\
## Fan-out

Slices of one host, all unschedulable at once, on the [local stack](../demo.md) with its own
cluster. GKE answers 429 above the limit of operations. *Shortest possible*: GKE accepts as many
creates as the limit, then one more whenever one ends; each takes a place for 61 s. Nodes do not
come up, so that the cluster's scheduler has no work. Only ours is measured. Each function is one
process with 16 threads, as one deployed instance; a deployment has up to ten. GKE answers a create
after 1.4 s, so with 100 places the threads of `settle` set the pace."""

_NOT_COMPARABLE = """\
## What is not comparable

- **GKE is not in it.** The fake GKE answers as documented and recorded, but real creates take
  minutes and vary. A longer create makes the difference between the two larger, because the Go
  program waits for each create before it begins the next one.
- **The Go program's concurrency is a setting** (`CONCURRENCY`, default 3). With a higher one its
  creates come sooner. Its calls for each slice do not become fewer.
- **Its deletes need a change of a node.** It looks at a pool when one of its nodes changes. Nodes
  here report their status once in 5 minutes each, as kubelets do when nothing changes. A node of
  GKE can have more writers, so *completed to first delete* can be shorter there.
- **Ours has more parts.** The figures of ours include a broker of Pub/Sub on the same machine, but
  not the start of an instance of Cloud Functions: the functions run already. On Google Cloud a
  first create can come seconds later than here ([cold start](../benchmarks.md)).
- **One instance for each function** runs here. Cloud Functions start up to ten, with 16 deliveries
  at once each.
- **Rights and tokens**: the Go program has an administrator's rights here, ours its own.
- **A restart is kinder here** than a Deployment's: there is no image to pull and no lease to wait
  for.
- **The fan-out is compressed in time**, but the waits of ours are not: its CPU time, Pub/Sub's
  pauses of 1 to 10 s and the sweep's interval of at least 5 s count as many virtual seconds more.
  The Go program's waits cannot be compressed, so it has no fan-out."""
