"""Cloud Scheduler: calls what a job names, as the account that it names, again and again."""

import threading
import time
from collections.abc import Mapping
from typing import Self

import httpx

from demo.deploy.deployments import Caller
from standins.pubsub.push.tokens import TokenSigner

EVERY_SECONDS = 5.0
"""In place of a minute: functions are not sped up, and more would only race with each other."""
_CALL_SECONDS_MAX = 60.0


class Scheduler:
    """One job, while its ``with`` block runs.

    Args:
        job: What it calls, for which audience, and as whom.
        doors: By a function's address: where that is on this machine.
    """

    def __init__(self, job: Caller, doors: Mapping[str, str]) -> None:
        self._job, self._doors = job, doors
        self._signer = TokenSigner(time.time)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self.jwks = self._signer.jwks()
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(_CALL_SECONDS_MAX)

    def _run(self) -> None:
        while not self._ending.wait(EVERY_SECONDS):
            token = self._signer.token(email=self._job.account, audience=self._job.audience)
            address = self._doors.get(self._job.address, self._job.address)
            try:
                answer = httpx.post(
                    address,
                    headers={"Authorization": f"Bearer {token}", "User-Agent": "Google-Cloud-Scheduler"},
                    timeout=_CALL_SECONDS_MAX,
                    trust_env=False,
                )
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
            else:
                if answer.is_error:
                    self.failures.append(f"{answer.status_code} {answer.text[:200]}")
