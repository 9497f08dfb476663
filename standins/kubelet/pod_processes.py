"""One pod whose containers are real processes.

Init containers one after the other, then all others at once.

What is not done: probes, hooks, volumes other than the account's token, and networks: every pod has
127.0.0.1.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from standins.kubelet.container_command import arguments_of, environment_of
from standins.kubelet.credentials import write_credentials
from standins.kubelet.images import Images
from standins.processes.child import Child, Command

Json = dict[str, Any]

_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 2.0


class PodProcesses:
    """The processes of one pod.

    Args:
        client: Of the API server, for the pod's credentials.
        pod: The pod.
        images: Where the images of its containers are.
        logs: The folder of the containers' logs, which stay.
    """

    def __init__(self, client: httpx.AsyncClient, pod: Json, images: Images, logs: Path) -> None:
        self._client, self._pod, self._images, self._logs = client, pod, images, logs
        # Short, and not below the logs: the programs put sockets there, whose paths may have 107
        # characters.
        self._folder = Path(tempfile.mkdtemp(prefix="pod-"))
        self._children: dict[str, Child] = {}
        self._cleared: set[str] = set()

    async def prepare(self) -> None:
        """Run the init containers to their end.

        One that fails runs again and again, as restartPolicy Always has it.

        Raises NoValue: a container cannot be started here.
        """
        await self._write_credentials()
        for container in self._pod["spec"].get("initContainers", ()):
            while True:
                child = self.start(container)
                await _look_until(lambda child=child: child.exit_code is not None)  # type: ignore[misc]
                if child.exit_code == 0:
                    break
                await asyncio.sleep(_RETRY_SECONDS)

    async def _write_credentials(self) -> None:
        """Write the pod's credentials once the API server gives them.

        Without them it does not start.
        """
        while True:
            try:
                await write_credentials(self._client, self._pod, self._folder)
            except httpx.HTTPError:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def start_all(self) -> None:
        """Start the containers. Raises NoValue: one of them cannot be started here."""
        for container in self._pod["spec"]["containers"]:
            self.start(container)

    def start(self, container: Json) -> Child:
        """Start one container, for the first time or again."""
        image = self._images.folder_of(container)
        environment = environment_of(
            self._pod, container, image=image, folder=self._folder, server=str(self._client.base_url)
        )
        # A container has nothing of the environment of whoever runs it.
        clean = ("env", "-i", *(f"{name}={value}" for name, value in environment.items()))
        command = Command(
            name=container["name"],
            arguments=(*clean, *arguments_of(container, environment, image)),
            folder=self._folder,
        )
        self._logs.mkdir(parents=True, exist_ok=True)
        child = Child(command, self._logs / f"{self._pod['metadata']['name']}.{container['name']}.log")
        self._children[container["name"]] = child
        return child

    def exit_codes(self) -> Iterator[tuple[str, int]]:
        """Yield name and exit code of each container that has ended."""
        for container in self._pod["spec"]["containers"]:
            code = self._children[container["name"]].exit_code
            if code is not None:
                yield container["name"], code

    async def wait_for_an_end(self, known: int) -> dict[str, int]:
        """Return how the containers ended, once more than so many have.

        With each goes what it left running.
        """
        await _look_until(lambda: len(list(self.exit_codes())) > known)
        ended = dict(self.exit_codes())
        for name in ended.keys() - self._cleared:
            self._children[name].kill()
        self._cleared |= ended.keys()
        return ended

    async def end(self, grace_seconds: float) -> None:
        """End whatever runs, politely and then firmly, and remove the pod's folder."""
        running = [child for child in self._children.values() if child.exit_code is None]
        await asyncio.gather(*(asyncio.to_thread(child.end, grace_seconds) for child in running))
        shutil.rmtree(self._folder, ignore_errors=True)


async def _look_until(done: Callable[[], bool]) -> None:
    while not done():  # noqa: ASYNC110 -- the end of a child comes with no event that could be awaited
        await asyncio.sleep(_LOOK_SECONDS)
