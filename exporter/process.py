"""One running exporter: it builds the parts, keeps the lease, and stops the parts in order.

The main thread keeps the lease; one thread per watched kind follows it, one publishes, one answers
probes. If a thread ends without the stop signal, the process ends, so that the kubelet starts a new
one with all threads.
"""

from __future__ import annotations

import gc
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from google.pubsub_v1.services.publisher import PublisherClient

from exporter.exporter_settings import ExporterSettings
from exporter.health import Health, HealthServer, Metrics, Role
from exporter.lease import LeaseLock, LeaseLost
from exporter.observed_objects import ObservedPods, ObservedWorkloads, list_observed
from exporter.publishing import Outbox, Pauses
from exporter.watch import Follower
from shared.edges.connection import Connection, TokenFile
from shared.edges.google import CLIENT, PubsubTopic
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.table import choose_kinds
from shared.model.errors import Misconfigured, ProvisionerError
from shared.settings import describe_problem, name_variable

USER_AGENT = "tpu-provisioner-exporter"
BUFFER_MAX = 1_000
"""Events that can wait for Pub/Sub, at about 1 kB each. When it is full, the watches pause."""
TICK_SECONDS = 1.0  # how often the main thread looks around when it has no lease to renew
JOIN_SECONDS = 0.3
"""How long to wait for a thread that was told to end; they are daemons, so a stuck one does not
block the end."""
_logger = logging.getLogger(__name__)
ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NAMESPACE = "tpu-provisioner"  # of the Lease, if neither a setting nor a pod says so


def open_connection(
    settings: ExporterSettings,
    environ: Mapping[str, str] = os.environ,
    folder: Path = ACCOUNT_FOLDER,
) -> Connection:
    """Return the way to the API: as the settings say, else by the account of this pod.

    Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.
    """
    url, token_file, ca_file = settings.endpoint, settings.token_file, settings.ca_file
    if not url:
        host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        token_file, ca_file = str(folder / "token"), str(folder / "ca.crt")
    token = TokenFile(Path(token_file)) if token_file else None
    try:
        if token:
            token()
        return Connection(url=url, token=token, ca_file=ca_file)
    except (Misconfigured, ValueError) as error:
        hint = "" if settings.endpoint else "; outside of a pod, set TPU_PROVISIONER_ENDPOINT"
        problems = error.problems if isinstance(error, Misconfigured) else (str(error),)
        raise Misconfigured(tuple(f"{each}{hint}" for each in problems)) from error


def find_namespace(settings: ExporterSettings, folder: Path = ACCOUNT_FOLDER) -> str:
    """Return the namespace of the Lease: as set, else that of this pod."""
    own = folder / "namespace"
    if settings.lease_namespace or settings.endpoint or not own.exists():
        return settings.lease_namespace or NAMESPACE
    return own.read_text(encoding="utf-8").strip()


def open_publisher() -> PublisherClient:
    """Return a client over gRPC with the application default credentials.

    It reads the variables that Google's clients read, PUBSUB_EMULATOR_HOST for example. It has
    threads of its own, so it suits a process that always has CPU, and that does not fork.
    """
    return PublisherClient(client_info=CLIENT)


def run_exporter(settings: ExporterSettings, stop: threading.Event) -> bool:
    """Run until `stop` is set, the lease is lost or a part fails; return whether it ends clean."""
    exporter = _Exporter(settings, stop)
    exporter.listen()
    try:
        return exporter.run()
    finally:
        exporter.end()


class _Exporter:
    """The parts of one process."""

    def __init__(self, settings: ExporterSettings, stop: threading.Event) -> None:
        self._settings, self._stop = settings, stop
        self._failed = threading.Event()
        self._metrics = Metrics()
        self._observed = list_observed(
            settings.cluster, choose_kinds(settings.kinds), queues=settings.kueue_admission_check
        )
        self._health = Health(tuple(each.name for each in self._observed))
        connection = open_connection(settings)
        self._api = KubernetesApi(connection, user_agent=USER_AGENT)
        self._lease = _build_lease(settings, connection) if settings.lease_seconds else None
        self._topic = PubsubTopic(open_publisher, settings.topic)
        self._outbox = Outbox(
            self._topic.publish,
            capacity=BUFFER_MAX,
            metrics=self._metrics,
            pauses=Pauses(),
            may_publish=self._lease.is_held if self._lease else lambda: True,
        )
        self._followers = {
            each.name: Follower(
                self._api,
                each,
                report=self._outbox.put,
                metrics=self._metrics,
                health=self._health,
                pauses=Pauses(),
            )
            for each in self._observed
        }
        self._threads: list[threading.Thread] = []
        self._server: HealthServer | None = None
        self._observe()
        # All that stands now stands to the end: looked through for garbage, it held up events for
        # 20 ms each time.
        gc.collect()
        gc.freeze()

    def listen(self) -> None:
        """Answer probes from now on, and log where."""
        host = self._settings.http_address
        try:
            server = HealthServer(host, self._settings.http_port, self._health, self._metrics)
        except OSError as error:
            problem = f"cannot listen on {host}:{self._settings.http_port}: {error}"
            raise Misconfigured((describe_problem(name_variable("http_port"), problem),)) from error
        server.start()
        self._server = server
        facts = {"cluster": self._settings.cluster, "topic": self._settings.topic}
        _logger.info("listening", extra={"url": f"http://127.0.0.1:{server.port}"} | facts)

    def run(self) -> bool:
        """Wait for the lease, then report until the end; return whether the end is clean."""
        if not self._stand_by():
            return True
        self._health.role = Role.LEADER
        self._metrics.is_leader.set(1)
        _logger.info("leading", extra={"election": self._lease is not None})
        self._start("outbox", self._outbox.run)
        for name, follower in self._followers.items():
            self._start(name, follower.run)
        try:
            self._lead()
        except LeaseLost as error:
            # The next leader reports everything that is true now, so the queue is not needed.
            self._outbox.stop()
            _logger.critical("the lease is lost, the exporter ends", extra={"problem": str(error)})
            return False
        return not self._failed.is_set()

    def end(self) -> None:
        """Stop the parts: first the watches, then the outbox, then the lease.

        What is not published yet is reported by the next leader, or found by the next tick.
        """
        self._health.role = Role.ENDING
        for follower in self._followers.values():
            follower.stop()
        self._outbox.stop()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        self._topic.close()
        released = self._lease.release() if self._lease else None
        if self._server:
            self._server.stop()
        facts = {"events_left_to_the_next_start": len(self._outbox), "lease_released": released}
        _logger.info("ended", extra=facts)

    def _stand_by(self) -> bool:
        """Wait for the lease; return whether this process got it before the end."""
        lease = self._lease
        if lease is None:
            return not self._stop.is_set()
        self._health.role = Role.STANDBY
        while not self._stop.is_set():
            self._health.beat("lease")
            try:
                acquired, lack = lease.try_acquire(), ""
            except ProvisionerError as error:
                acquired, lack = False, str(error)
                _logger.warning("the lease could not be read or written", extra={"problem": lack})
            self._health.note_lack("lease", lack)
            if acquired:
                return True
            self._stop.wait(lease.retry_seconds)
        return False

    def _lead(self) -> None:
        """Renew the lease until the end; `LeaseLost` if another process may lead from now on."""
        pause = self._lease.retry_seconds if self._lease else TICK_SECONDS
        while not self._stop.wait(pause):
            if self._failed.is_set():
                return
            self._health.beat("lease")
            if self._lease:
                self._lease.renew()

    def _start(self, name: str, body: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(name, body), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, name: str, body: Callable[[], None]) -> None:
        """Run the body of a thread; if it ends by itself, the whole process has to end."""
        try:
            body()
        finally:
            if self._health.role is not Role.ENDING and not self._stop.is_set():
                text = "a part of the exporter failed, the exporter ends"
                _logger.critical(text, extra={"part": name})
                self._failed.set()

    def _observe(self) -> None:
        observe, outbox = self._metrics.observe, self._outbox
        waiting = partial(self._count_standing, ObservedPods)
        over = partial(self._count_standing, ObservedWorkloads)
        oldest = outbox.oldest_age_seconds
        observe("oldest_unpublished_age_seconds", "Age of the oldest event in the buffer.", oldest)
        observe("buffered", "Events that Pub/Sub has not stored yet.", outbox.__len__)
        observe("leaders_unschedulable", "Leader pods that are unschedulable now.", waiting)
        observe("workloads_over", "Finished workloads that still exist.", over)

    def _count_standing(self, of: type[Any]) -> float:
        return float(sum(each.standing for each in self._observed if isinstance(each, of)))


def _build_lease(settings: ExporterSettings, connection: Connection) -> LeaseLock:
    # An API of its own with short time-outs: a renewal that hangs must fail well within the lease.
    seconds, agent = settings.lease_seconds / 6, f"{USER_AGENT}-lease"
    api = KubernetesApi(connection, timeout_seconds=seconds, user_agent=agent)
    return LeaseLock(
        api,
        namespace=find_namespace(settings),
        name=settings.lease_name,
        identity=f"{socket.gethostname()}_{secrets.token_hex(4)}",
        lease_seconds=settings.lease_seconds,
    )
