"""``python -m benchmarks.field``: runs what is asked for, keeps the records, prints the figures."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from benchmarks.field.records import FanOut, Record, Side, derive_figures, find_minimum_seconds
from benchmarks.field.running import run_fan_out, run_jobset
from benchmarks.metering import Failed
from demo.settings import PROJECT_ROOT

RECORDS = PROJECT_ROOT / "build" / "field"
SIZES = ("1", "12", "12-killed", "64")
SPEEDS = {100: 3.0, 20: 8.0, 5: 30.0}
"""The limits of the fan-out, each with virtual seconds per real second: at the best 3 to 5 creates
are accepted in a second, which two cores can do."""
app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Figures against the field.")
Records = Annotated[Path, typer.Option(help="The folder of the records, one file for each run.")]


@app.command()
def run(
    *,
    program: Annotated[
        Path | None, typer.Option(help="The Go TPU Provisioner's executable, as its own build makes it.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="Slices; with -killed its processes are killed meanwhile.")
    ] = None,
    side: Annotated[list[Side] | None, typer.Option(help="Whose provisioner; default: both.")] = None,
    seconds_max: Annotated[float, typer.Option(help="End each run as it is after so many seconds.")] = 5_400.0,
    records: Records = RECORDS,
) -> None:
    """Run JobSets on both provisioners, in real time (64 slices of the Go program: 55 minutes)."""
    sides = side or list(Side)
    wanted = [_read_size(each) for each in size or SIZES]
    if Side.GO in sides and (program is None or not program.is_file()):
        _refuse(f"--program: is not an executable file (got '{program or ''}'); valid: a path")
    for slices, killed in wanted:
        for who in sides:
            name = f"{who}-{slices}{'-killed' if killed else ''}"
            with tempfile.TemporaryDirectory(prefix="field-") as folder, _stopping():
                record = run_jobset(
                    who,
                    slices,
                    Path(folder),
                    program=program,
                    kill=killed,
                    seconds_max=seconds_max,
                    say=_open_teller(name),
                )
            _keep(records / f"{name}.json", record)
            figures = msgspec.to_builtins(derive_figures(record))
            print("\n".join(f"{name}: {what}: {found}" for what, found in figures.items()), flush=True)


@app.command("fan-out")
def fan_out(
    *,
    limit: Annotated[list[int] | None, typer.Option(help="GKE's limit of operations.", min=1)] = None,
    leaders: Annotated[int, typer.Option(help="How many slices of one host.", min=1)] = 1000,
    speed: Annotated[
        float | None, typer.Option(help="Virtual seconds per real second; default: by the limit.", min=1)
    ] = None,
    seconds_max: Annotated[float, typer.Option(help="End each run as it is after so many seconds.")] = 3_600.0,
    records: Records = RECORDS,
) -> None:
    """Let many leaders be unschedulable at once, until GKE has accepted all creates of ours."""
    for each in limit or SPEEDS:
        name = f"fan-out-{each}"
        with tempfile.TemporaryDirectory(prefix="field-") as folder, _stopping():
            record = run_fan_out(
                each,
                leaders,
                speed or SPEEDS.get(each, 8.0),
                Path(folder),
                seconds_max=seconds_max,
                say=_open_teller(name),
            )
        _keep(records / f"{name}.json", record)
        took = (record.accepted_at[-1] - record.started_at) * record.speed
        shortest = find_minimum_seconds(len(record.accepted_at), each, record.operation_seconds)
        print(f"{name}: the last create after {took:.0f} s, at least {shortest:.0f} s; {record.refused} refused")


def _read_size(text: str) -> tuple[int, bool]:
    number, _, killed = text.partition("-")
    if not number.isdecimal() or not int(number) or killed not in ("", "killed"):
        _refuse(f"--size: is not valid (got '{text}'); valid: a number of slices, or N-killed")
    return int(number), bool(killed)


def _open_teller(name: str) -> Callable[[str], None]:
    begin = time.monotonic()
    return lambda text: print(f"{time.monotonic() - begin:7.1f} s {name}: {text}", flush=True)


@contextmanager
def _stopping() -> Iterator[None]:
    """End the command with 1 where a run has no figures; its record stays as it was."""
    try:
        yield
    except Failed as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from error


def _keep(path: Path, record: Record | FanOut) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(record) + b"\n")


def _refuse(text: str) -> NoReturn:
    sys.stderr.write(f"error: {text}\n")
    raise typer.Exit(2)


if __name__ == "__main__":
    app()
