"""The clusters of the tests: how to reach them, and how to break their watches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from standins.controlplane.commands import API_SERVER
from standins.controlplane.plane import ControlPlane
from standins.processes.child import Child
from standins.processes.kubeconfig import open_client
from standins.processes.stand_ins import running_stand_in, wait_until

WARNINGS_FAIL = {"PYTHONWARNINGS": "error"}
REQUEST_SECONDS = 60.0
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True)
class RunningCluster:
    """The embedded cluster as a process."""

    url: str
    kubeconfig: Path
    child: Child


@contextmanager
def running_cluster(folder: Path, *options: str) -> Iterator[RunningCluster]:
    kubeconfig = folder / "kubeconfig"
    arguments = ("--kubeconfig-file", str(kubeconfig), *options)
    with running_stand_in(folder, "standins.cluster", *arguments, environment=WARNINGS_FAIL) as stand_in:
        yield RunningCluster(stand_in.addresses["url"], kubeconfig, stand_in.child)


class BreakableCluster(ABC):
    """A cluster that nobody else relies on, so that it may be broken."""

    kubeconfig: Path

    @abstractmethod
    def forget_history(self) -> None:
        """Return once versions before now answer 410 in lists and watches; watches may break."""

    @abstractmethod
    def break_off_watches(self) -> None:
        """Break off every open watch in the middle."""


class BreakableEmbedded(BreakableCluster):
    """Uses the requests for trouble of the embedded cluster."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.kubeconfig = cluster.kubeconfig
        self._url = cluster.url

    def forget_history(self) -> None:
        httpx.post(f"{self._url}/admin/compact", trust_env=False).raise_for_status()

    def break_off_watches(self) -> None:
        # Between two watches, as after a listing, there is none for a moment.
        wait_until(lambda: httpx.post(f"{self._url}/admin/disconnect", trust_env=False).json()["dropped"] > 0)


class BreakableReal(BreakableCluster):
    """Kills the API server: its cache is the history that watches read; etcd keeps the objects."""

    def __init__(self, plane: ControlPlane) -> None:
        self.kubeconfig = plane.kubeconfig
        self._plane = plane

    def forget_history(self) -> None:
        with open_client(self.kubeconfig) as http:
            version = http.get(CONFIG_MAPS, params={"limit": 1}).json()["metadata"]["resourceVersion"]
            query = {"limit": 1, "resourceVersion": version, "resourceVersionMatch": "Exact"}
            wait_until(lambda: http.get(CONFIG_MAPS, params=query).status_code == 410)
        self.break_off_watches()

    def break_off_watches(self) -> None:
        self._plane.kill(API_SERVER)
        self._plane.start(API_SERVER)
