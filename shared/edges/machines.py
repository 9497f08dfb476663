"""The machines of a pool, by the instance groups of Compute Engine's REST API.

A pool of ours has one zone and one group. One that was changed by hand may have more.
https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from shared.json_text import JSON_ERRORS
from shared.model.errors import Unavailable
from shared.model.readings import FillError, Machines
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.edges.google import GoogleSession
    from shared.model.pools import NodePool

T = TypeVar("T")


_CREATING, _LEAVING = "CREATING", ("DELETING", "ABANDONING")  # assumes: group-actions
_ABSENT = ("", "PENDING", "PENDING_STOP", "DEPROVISIONING", "STOPPING", "STOPPED", "TERMINATED")
_MESSAGE_LENGTH_MAX = 400
_PAGES_MAX = 20
_GROUP_PATH = re.compile(r"projects/[^/]+/(?:zones|regions)/[^/]+/instanceGroupManagers/[^/]+$")


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _Error(_Struct):
    code: str = ""
    message: str = ""


class _Errors(_Struct):
    errors: list[_Error] = []


class _Attempt(_Struct):
    errors: _Errors | None = None


class _Instance(_Struct):
    instance: str
    current_action: str = ""
    instance_status: str = ""
    """Empty as long as there is no machine."""
    last_attempt: _Attempt | None = None


class _Instances(_Struct):
    managed_instances: list[_Instance] = []
    next_page_token: str = ""


class _Told(_Struct):
    error: _Error | None = None
    timestamp: str | None = None


class _ErrorList(_Struct):
    items: list[_Told] = []


class _Check(_Struct):
    error: _Errors | None = None
    timestamp: str | None = None


class _Bulk(_Struct):
    in_progress: bool = False
    last_progress_check: _Check | None = None


class _Status(_Struct):
    bulk_instance_operation: _Bulk | None = None


class _Group(_Struct):
    status: _Status | None = None


_GROUP = msgspec.json.Decoder(_Group)
_INSTANCES = msgspec.json.Decoder(_Instances)
_ERROR_LIST = msgspec.json.Decoder(_ErrorList)


class InstanceGroups:
    """What Compute Engine knows of the machines of pools."""

    def __init__(self, session: GoogleSession) -> None:
        """Prepare; nothing is sent yet."""
        self._session = session

    def read_machines(self, pool: NodePool) -> Machines:
        """Return how many machines there are and come, and what keeps the others away.

        A group that makes all machines of a slice or none lists them as being created while it has
        no capacity for them, and only its operation says so. The errors of the group are read if
        machines are absent and none comes.

        Raises:
            ProvisionerError: a group could not be read.
        """
        made, coming, errors = 0, 0, list[FillError]()
        for group in map(_path_of, pool.group_urls):
            rows = [
                each
                for each in self._list_instances(group)
                if not each.current_action.startswith(_LEAVING)
            ]
            absent = [each for each in rows if each.instance_status in _ABSENT]
            bulk = self._get_bulk(group) if len(absent) == len(rows) else _Bulk()
            told = list(_list_check_errors(bulk))
            made += len(rows) - len(absent)
            coming += (
                0 if told and bulk.in_progress else sum(not _find_errors(row) for row in absent)
            )
            errors += [_tell(error, None) for row in absent for error in _find_errors(row)]
            if not coming and (absent or not made):
                errors += [*self._list_errors(group), *told]
        return Machines(made=made, coming=coming, errors=tuple(dict.fromkeys(errors)))

    def _list_instances(self, group: str) -> list[_Instance]:
        """Return all of a group's instances. GKE's groups answer in pages of 500."""
        found, page = list[_Instance](), ""
        for _ in range(_PAGES_MAX):
            answer = self._session.call("POST", f"compute/v1/{group}/listManagedInstances{page}")
            read = _decode(_INSTANCES, answer)
            found += read.managed_instances
            if not read.next_page_token:  # assumes: group-pages
                return found
            page = f"?pageToken={quote(read.next_page_token, safe='')}"
        raise Unavailable(
            f"GKE's answer cannot be read: {group} has more than {_PAGES_MAX} pages of instances"
        )

    def _list_errors(self, group: str) -> Iterator[FillError]:
        answer = self._session.call(
            "GET", f"compute/v1/{group}/listErrors"
        )  # assumes: group-errors
        for each in _decode(_ERROR_LIST, answer).items:
            if each.error is not None:
                yield _tell(each.error, parse_time(each.timestamp))

    def _get_bulk(self, group: str) -> _Bulk:
        """Return the operation that makes all machines of the group or none."""
        answer = _decode(_GROUP, self._session.call("GET", f"compute/v1/{group}"))
        status = answer.status  # assumes: bulk-operation
        return (status.bulk_instance_operation if status else None) or _Bulk()


def _list_check_errors(bulk: _Bulk) -> Iterator[FillError]:
    check = bulk.last_progress_check
    for error in check.error.errors if check and check.error else ():
        yield _tell(error, parse_time(check.timestamp if check else None))


def _find_errors(row: _Instance) -> list[_Error]:
    return row.last_attempt.errors.errors if row.last_attempt and row.last_attempt.errors else []


def _tell(error: _Error, at: float | None) -> FillError:
    return FillError(": ".join(filter(None, (error.code, error.message)))[:_MESSAGE_LENGTH_MAX], at)


def _path_of(url: str) -> str:
    """Return an instance group's path without the host and the API version of its URL."""
    found = _GROUP_PATH.search(url)
    if found is None:
        raise Unavailable(f"GKE's answer names an instance group with an unknown path: {url}")
    return found[0]


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except JSON_ERRORS as error:
        raise Unavailable(f"GKE's answer cannot be read: {error}") from error
