"""The command ``conformance``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import end_with, told
from cli.shared_options import Sure  # noqa: TC001 -- typer reads the annotations


def conformance(
    report: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The report, as JSON; a page for people is beside it. A second run continues it."
        ),
    ] = Path("conformance.json"),
    minutes: Annotated[
        float,
        typer.Option(metavar="NUMBER", min=1, help="Stop asking after so many minutes. The clean-up comes then."),
    ] = 60.0,
    dollars: Annotated[
        float,
        typer.Option(metavar="NUMBER", min=0, help="Ask nothing that can cost more US dollars, by list price."),
    ] = 0.0,
    tpu: Annotated[
        str,
        typer.Option(
            metavar="MACHINE:TOPOLOGY", help="Also create slices of this TPU machine. They can cost money."
        ),
    ] = "",
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Zone of these slices.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION", help="Ask only this one. Can be repeated.")
    ] = None,
    *,
    clean: Annotated[
        bool, typer.Option("--clean", help="Ask nothing. Delete what the run of the report has made, and end.")
    ] = False,
    sure: Sure = False,
) -> None:
    """Ask Google in a test cluster whether our assumptions hold.

    It creates node pools without nodes in the chosen cluster, and deletes them. Each has a label of
    the run. No other pool is touched. It prints its plan and asks first. After Ctrl-C it deletes
    its pools; after a kill the next run does it, with the same report. The exit code is 1 if an
    answer differs from the assumed one, or is missing.

    Example: tpu-provisioner conformance --minutes=45
    """
    from cli.conformance.conformance_run import RunOptions, run  # noqa: PLC0415 -- see open_deployment

    options = RunOptions(
        path=report,
        minutes=minutes,
        dollars=dollars,
        tpu=tpu,
        zone=zone,
        only=tuple(only or ()),
        clean=clean,
        sure=sure,
    )
    with told():
        code = run(open_chosen(), options)
    end_with(code)
