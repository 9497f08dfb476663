"""The borders of the product, in the order in which they are fuzzed."""

from tests.fuzz.cluster_objects import CLUSTER_OBJECTS
from tests.fuzz.gke_answers import GKE_ANSWERS
from tests.fuzz.manifest_files import MANIFEST_FILES
from tests.fuzz.push_bodies import PUSH_BODIES
from tests.fuzz.watch_streams import WATCH_STREAMS

BORDERS = (PUSH_BODIES, CLUSTER_OBJECTS, WATCH_STREAMS, GKE_ANSWERS, MANIFEST_FILES)
