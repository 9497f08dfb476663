"""What the mock of Google Cloud was asked to create, and what of that it still has.

The calls are read from its journal, so a new kind of resource in Terraform is looked at too.
"""

import json
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from standins.googlecloud.mock_program import MockCloud

Json = dict[str, Any]

_QUERY_NAMES = (
    *("functionId", "repositoryId", "repository_id", "serviceId", "serviceLevelObjectiveId"),
    *("notificationChannelId", "tensorboardId"),
)
"""What a query calls the name of a new object, where the body does not have it."""
_BODY_NAMES = ("cluster", "nodePool")
"""Under which key of the body the object is that has the name."""


@dataclass(frozen=True, slots=True)
class Created:
    """One call that created something."""

    host: str
    path: str
    """Of the collection; with PUT, of the object."""
    query: httpx.QueryParams
    request: Json
    answer: Json
    is_put: bool

    @property
    def collection(self) -> str:
        """The last word of the collection's path: ``topics``, ``alertPolicies``, ``b``."""
        return self.path.split("/")[-2 if self.is_put else -1]

    @property
    def address(self) -> str:
        """Where the object can be read."""
        if self.is_put:
            return f"https://{self.host}{self.path}"
        return f"https://{self.host}{self.path}/{quote(self.name, safe='@')}"

    @property
    def name(self) -> str:
        """The object's short name, as the caller or the API has chosen it."""
        if self.is_put:
            return self.path.rpartition("/")[2]
        named = [self.query[key] for key in _QUERY_NAMES if key in self.query]
        named += [self.request[key]["name"] for key in _BODY_NAMES if key in self.request]
        if "accountId" in self.request:
            project = self.path.split("/")[3]
            named.append(f"{self.request['accountId']}@{project}.iam.gserviceaccount.com")
        if "roleId" in self.request:
            named.append(self.request["roleId"])
        given = str(self.request.get("name") or self.answer.get("name", ""))
        given = given.partition("/operations/")[0]  # a TensorBoard's operation has the board's own name in front
        # The name of a metric has a slash; other names are those of the whole path.
        named.append(given if self.collection == "metrics" else given.rpartition("/")[2])
        return str(named[0])


class CreatedObjects:
    """The creations that a mock has answered, from its journal, and the mock itself.

    Args:
        mock: It.
        client: Reaches it as its proxy.
    """

    def __init__(self, mock: MockCloud, client: httpx.Client) -> None:
        self._mock, self.client = mock, client

    def list_created(self) -> list[Created]:
        """Return the answered calls that create something; grants, uploads and queries do not."""
        lines = self._mock.journal.read_text().splitlines(keepends=True)
        calls = [json.loads(each) for each in lines if each.endswith("\n")]
        return [_read(each) for each in calls if _creates(each)]

    def list_present(self) -> dict[str, Json]:
        """Return what is still there, by the addresses."""
        present = {}
        for address in dict.fromkeys(each.address for each in self.list_created()):
            answer = self.client.get(address)
            if answer.status_code == httpx.codes.NOT_FOUND:
                continue
            found: Json = answer.raise_for_status().json()
            if not found.get("deleted"):  # Google keeps a deleted custom role for seven days
                present[address] = found
        return present

    def list_left(self) -> list[str]:
        """Return the names of what is still there."""
        names = {each.address: each.name for each in self.list_created()}
        return sorted(names[address] for address in self.list_present())

    def list_doubles(self) -> list[str]:
        """Return which title two objects of one collection have, with the collection."""
        titles = Counter(
            f"{address.rpartition('/')[0]}: {found.get('displayName') or found['title']}"
            for address, found in self.list_present().items()
            if found.get("displayName") or found.get("title")
        )
        return sorted(title for title, count in titles.items() if count > 1)

    def list_grants(self) -> list[str]:
        """Return each binding that is there: resource, role and members."""
        return sorted(
            f"{resource}: {each['role']}: {', '.join(each['members'])}"
            for resource, policy in self._mock.ask("/policies").json().items()
            for each in policy.get("bindings", ())
        )


@contextmanager
def look_at(mock: MockCloud) -> Iterator[CreatedObjects]:
    """Yield what a mock was asked to create."""
    trust = ssl.create_default_context(cafile=str(mock.authority))
    with httpx.Client(proxy=mock.url, verify=trust, timeout=30, trust_env=False) as client:
        yield CreatedObjects(mock, client)


def _creates(call: Json) -> bool:
    path = str(call["path"]).partition("?")[0]
    if call["code"] >= httpx.codes.MULTIPLE_CHOICES or ":" in path or "/upload/" in path or path.endswith("/iam"):
        return False
    return call["method"] == "POST" or (call["method"] == "PUT" and str(call["host"]).startswith("pubsub."))


def _read(call: Json) -> Created:
    path, _, query = str(call["path"]).partition("?")
    return Created(
        host=call["host"],
        path=path,
        query=httpx.QueryParams(query),
        request=call.get("request") or {},
        answer=call.get("answer") or {},
        is_put=call["method"] == "PUT",
    )
