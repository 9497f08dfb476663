"""The machines of a pool, by the instance groups of Compute Engine's REST API.

A pool of ours has one zone and one group. One that was changed by hand may have more.
https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from shared.edges.google import GoogleSession
from shared.kinds.objects import UnexpectedValue, read_flag, read_object, read_objects, read_text
from shared.model.errors import JSON_ERRORS, Unavailable
from shared.model.pools import FillError, Machines
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.kinds.objects import Json
    from shared.model.pools import NodePool

_LEAVING = ("DELETING", "ABANDONING")  # assumes: group-actions
_ABSENT = ("", "PENDING", "PENDING_STOP", "DEPROVISIONING", "STOPPING", "STOPPED", "TERMINATED")
"""The status of an instance is empty as long as there is no machine."""
_MESSAGE_LENGTH_MAX = 400
_PAGES_MAX = 20
_GROUP_PATH = re.compile(r"projects/[^/]+/(?:zones|regions)/[^/]+/instanceGroupManagers/[^/]+$")
_ANSWER = msgspec.json.Decoder(dict[str, object])


class InstanceGroups(GoogleSession):
    """What Compute Engine knows of the machines of pools."""

    def read_machines(self, pool: NodePool) -> Machines:
        """Return how many machines there are and come, and what keeps the others away."""
        present, coming, errors = 0, 0, list[FillError]()
        try:
            for group in map(_find_path, pool.group_urls):
                machines = self._read_group(group, max(pool.node_count, 1) - present)
                present, coming = present + machines.present, coming + machines.coming
                errors += machines.errors
        except (UnexpectedValue, *JSON_ERRORS) as error:
            raise Unavailable(f"GKE's answer cannot be read: {error}") from error
        return Machines(present=present, coming=coming, errors=tuple(dict.fromkeys(errors)))

    def _read_group(self, group: str, most: int) -> Machines:
        """Return what one group says of its machines, of which there may be so many.

        A group that makes all machines of a slice or none lists them as being created while it has
        no capacity for them, and only its operation says so. The errors of the group are read if
        machines are absent and none comes; and, because GKE's autoscaler takes back what it asked
        for in vain, if the pool may have more than it has.
        """
        rows = self._list_instances(group)
        absent = [each for each in rows if read_text(each, "instanceStatus") in _ABSENT]
        present = len(rows) - len(absent)
        failed = [list(_list_row_errors(each)) for each in absent]
        bulk = {} if present else self._get_bulk(group)
        of_bulk, goes_on = list(_list_check_errors(bulk)), read_flag(bulk, "inProgress")
        coming = 0 if goes_on and of_bulk else failed.count([])
        errors = list(chain.from_iterable(failed))
        if not coming and (absent or present < most):
            errors += [*self._list_errors(group), *of_bulk]
        return Machines(present=present, coming=coming, errors=tuple(errors))

    def _list_instances(self, group: str) -> list[Json]:
        """Return a group's instances that are not leaving. GKE's groups answer in pages of 500."""
        rows: list[Json] = []
        page = ""
        for _ in range(_PAGES_MAX):
            answer = _ANSWER.decode(
                self.call("POST", f"compute/v1/{group}/listManagedInstances{page}")
            )
            rows += read_objects(answer, "managedInstances")
            token = read_text(answer, "nextPageToken")
            if not token:  # assumes: group-pages
                return [each for each in rows if not _is_leaving(each)]
            page = f"?pageToken={quote(token, safe='')}"
        raise Unavailable(
            f"GKE's answer cannot be read: {group} has more than {_PAGES_MAX} pages of instances"
        )

    def _list_errors(self, group: str) -> Iterator[FillError]:
        answer = _ANSWER.decode(self.call("GET", f"compute/v1/{group}/listErrors"))
        for each in read_objects(answer, "items"):  # assumes: group-errors
            if error := read_object(each, "error"):
                yield _make_error(error, read_text(each, "timestamp"))

    def _get_bulk(self, group: str) -> Json:
        """Return the operation that makes all machines of the group or none."""
        answer = _ANSWER.decode(self.call("GET", f"compute/v1/{group}"))
        return read_object(answer, "status", "bulkInstanceOperation")  # assumes: bulk-operation


def _is_leaving(row: Json) -> bool:
    if not read_text(row, "instance"):
        raise UnexpectedValue("managedInstances.instance", "", "a name")
    return read_text(row, "currentAction").startswith(_LEAVING)


def _list_row_errors(row: Json) -> Iterator[FillError]:
    for error in read_objects(row, "lastAttempt", "errors", "errors"):
        yield _make_error(error, "")


def _list_check_errors(bulk: Json) -> Iterator[FillError]:
    check = read_object(bulk, "lastProgressCheck")
    for error in read_objects(check, "error", "errors"):
        yield _make_error(error, read_text(check, "timestamp"))


def _make_error(error: Json, at: str) -> FillError:
    words = filter(None, (read_text(error, "code"), read_text(error, "message")))
    return FillError(": ".join(words)[:_MESSAGE_LENGTH_MAX], parse_time(at))


def _find_path(url: str) -> str:
    """Return an instance group's path without the host and the API version of its URL."""
    path = _GROUP_PATH.search(url)
    if path is None:
        raise Unavailable(f"GKE's answer names an instance group with an unknown path: {url}")
    return path[0]
