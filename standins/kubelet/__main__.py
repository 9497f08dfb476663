"""Command line of the simulated kubelet: `python -m standins.kubelet --kubeconfig FILE`."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer

from standins.kit.kubernetes import KubeconfigError, open_async_client
from standins.kit.lifecycle import note_signals, refuse, silence_cancelled_connects, wait_for_the_end, write_record
from standins.kubelet.kubelet import Kubelet, PodWatch


async def _run(kubeconfig: Path, speed: float, run_seconds: float) -> None:
    told = note_signals()
    async with open_async_client(kubeconfig, timeout_seconds=30.0, connections=16) as client:
        kubelet = Kubelet(client, speed=speed, run_seconds=run_seconds)
        following = asyncio.create_task(kubelet.run(PodWatch(client)))
        write_record("following bound pods", server=str(client.base_url), speed=speed)
        await wait_for_the_end(told, following)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    write_record("stopped")


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def main(
    kubeconfig: Annotated[Path, typer.Option(help="How to reach the API server.")],
    speed: Annotated[float, typer.Option(min=0.001, help="Virtual seconds per real second.")] = 30.0,
    run_seconds: Annotated[
        float, typer.Option(min=0, help="Virtual seconds a pod runs unless it says otherwise.")
    ] = 90.0,
) -> None:
    """Make bound pods run and end, until SIGTERM.

    Annotations of a pod say how long it runs, and how it ends: docs/local-stack.md.
    """
    silence_cancelled_connects()
    try:
        asyncio.run(_run(kubeconfig, speed, run_seconds))
    except KubeconfigError as error:
        refuse(error)


if __name__ == "__main__":
    app()
