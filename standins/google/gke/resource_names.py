"""Resource names of the GKE API: parsing, spelling, links. Nothing here knows what exists.

A zonal cluster is spelled with `zones/` in links and error texts, whatever the caller wrote;
operations carry the project's number, pools the project's id.
"""

import re
import zlib
from dataclasses import dataclass
from functools import partial

from standins.google.gke.errors import invalid

POOL_NAME = r"(?:[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)"
_API = "https://container.googleapis.com/v1/"
_LOCATION = r"projects/(?P<project>[^/]+)/(?P<word>locations|zones)/(?P<location>[^/]+)"
_CLUSTER = re.compile(rf"{_LOCATION}/clusters/(?P<cluster>[^/]+)")
_POOL = re.compile(rf"{_LOCATION}/clusters/(?P<cluster>[^/]+)/nodePools/(?P<leaf>[^/]+)")
_OPERATION = re.compile(rf"{_LOCATION}/operations/(?P<leaf>[^/]+)")
_PLACE = re.compile(_LOCATION)
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_ZONE = re.compile(rf"{_REGION.pattern}-[a-z0-9]+")


def is_zone(location: str) -> bool:
    """Return whether a location is a zone (`us-east5-b`) and not a region (`us-east5`)."""
    return _ZONE.fullmatch(location) is not None


def is_location(location: str) -> bool:
    """Return whether a text is spelled as a zone or a region is."""
    return is_zone(location) or _REGION.fullmatch(location) is not None


def region_of(location: str) -> str:
    """Return the region of a zone, a region as it is."""
    return location.rsplit("-", 1)[0] if is_zone(location) else location


def project_number(project: str) -> int:
    """Return a stable twelve-digit number for a project id."""
    return 100_000_000_000 + zlib.crc32(project.encode()) * 197 % 900_000_000_000


@dataclass(frozen=True, order=True)
class ClusterName:
    """Which cluster; `location` is the cluster's own region or zone."""

    project: str
    location: str
    cluster: str

    @property
    def path(self) -> str:
        """Return the documented resource name."""
        return f"projects/{self.project}/locations/{self.location}/clusters/{self.cluster}"

    @property
    def spelled(self) -> str:
        """Return the resource name as GKE prints it: `zones/` for a zonal cluster."""
        return f"projects/{self.project}/{self._word}/{self.location}/clusters/{self.cluster}"

    @property
    def self_link(self) -> str:
        """Return the cluster's link, with the project's id."""
        return _API + self.spelled

    def pool_link(self, pool: str) -> str:
        """Return a node pool's self link, with the project's id."""
        return f"{_API}{self.spelled}/nodePools/{pool}"

    def target_link(self, pool: str) -> str:
        """Return an operation's target link, with the project's number.

        Of the cluster when `pool` is empty.
        """
        base = (
            f"{_API}projects/{project_number(self.project)}/{self._word}/{self.location}/clusters/{self.cluster}"
        )
        return f"{base}/nodePools/{pool}" if pool else base

    def operation_link(self, operation: str) -> str:
        """Return an operation's self link, with the project's number."""
        number = project_number(self.project)
        return f"{_API}projects/{number}/{self._word}/{self.location}/operations/{operation}"

    @property
    def _word(self) -> str:
        return "zones" if is_zone(self.location) else "locations"


@dataclass(frozen=True)
class Place:
    """A parsed resource name.

    The cluster (its name may be empty), and the pool's or operation's name.
    """

    project: str
    location: str
    cluster: str = ""
    leaf: str = ""
    word: str = "locations"

    @property
    def cluster_name(self) -> ClusterName:
        """Return the cluster that the name points into."""
        return ClusterName(self.project, self.location, self.cluster)


def _parse(pattern: re.Pattern[str], form: str, field: str, value: str) -> Place:
    """Return the parts of a name; raises ApiError (INVALID_ARGUMENT) naming the field."""
    match = pattern.fullmatch(value)
    if match is None:
        raise invalid(f'Invalid resource name in field "{field}": "{value}". Expected the form "{form}".')
    return Place(**match.groupdict())


parse_cluster = partial(_parse, _CLUSTER, "projects/*/locations/*/clusters/*")
parse_pool = partial(_parse, _POOL, "projects/*/locations/*/clusters/*/nodePools/*")
parse_operation = partial(_parse, _OPERATION, "projects/*/locations/*/operations/*")
parse_location = partial(_parse, _PLACE, "projects/*/locations/*")
"""Here `-` stands for every location."""
