"""Names of GKE's resources, and its refusals, as GKE writes both. Nothing here knows what exists.

A zonal cluster is spelled with `zones/` in links and error texts, whatever the caller wrote;
operations carry the project's number, pools the project's id.
"""

import re
import zlib
from dataclasses import dataclass

from standins.google.errors import ApiError, Code

DOMAIN = "container.googleapis.com"
POOL_NAME = r"(?:[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)"
_API = f"https://{DOMAIN}/v1/"
_NAME = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)(?:/clusters/(?P<cluster>[^/]+))?"
    r"(?:/(?:nodePools|operations)/(?P<leaf>[^/]+))?"
)
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
        return f"projects/{self.project}/{self._place}/clusters/{self.cluster}"

    def pool_link(self, pool: str = "") -> str:
        """Return a node pool's self link, the cluster's without one; with the project's id."""
        return _API + self.spelled + (f"/nodePools/{pool}" if pool else "")

    def target_link(self, pool: str) -> str:
        """Return an operation's target link, with the project's number."""
        base = f"{_API}projects/{self._number}/{self._place}/clusters/{self.cluster}"
        return f"{base}/nodePools/{pool}" if pool else base

    def operation_link(self, operation: str) -> str:
        """Return an operation's self link, with the project's number."""
        return f"{_API}projects/{self._number}/{self._place}/operations/{operation}"

    @property
    def _number(self) -> int:
        return 100_000_000_000 + zlib.crc32(self.project.encode()) * 197 % 900_000_000_000

    @property
    def _place(self) -> str:
        return f"{'zones' if is_zone(self.location) else 'locations'}/{self.location}"


def parse_name(name: str) -> tuple[ClusterName, str]:
    """Return the cluster of a resource name (its name may be empty), and the pool or operation.

    Raises ApiError: it is no resource name.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise invalid(f'Invalid resource name: "{name}".')
    return ClusterName(match["project"], match["location"], match["cluster"] or ""), match["leaf"] or ""


def invalid(text: str) -> ApiError:
    """Return the error for a request that can never succeed as it stands."""
    return ApiError(Code.INVALID_ARGUMENT, text)


def invalid_field(name: str, value: object, wanted: str) -> ApiError:
    """Return the error for one bad field, naming the value and what would be valid."""
    return invalid(f'Invalid value for field "{name}": "{value}". {wanted}')


def pool_not_found(pool: str) -> ApiError:
    """Return the error for a pool that is not in its cluster."""
    return ApiError(Code.NOT_FOUND, f'Not found: node pool "{pool}" not found.')


def not_emulated(what: str) -> ApiError:
    """Return the loud refusal of something that real GKE may do and this fake does not."""
    return ApiError(Code.UNIMPLEMENTED, f"The fake GKE does not emulate {what}.", "UNIMPLEMENTED")
