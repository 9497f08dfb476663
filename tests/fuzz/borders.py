"""The borders of the product, in the order in which they are fuzzed."""

from tests.fuzz.cluster_objects import CLUSTER_OBJECTS
from tests.fuzz.gke_answers import GKE_ANSWERS
from tests.fuzz.push_bodies import PUSH_BODIES

BORDERS = (PUSH_BODIES, CLUSTER_OBJECTS, GKE_ANSWERS)
