"""Writes what happens in the model into the log of the process."""

from standins.fakegke.model.node_events import CallMade, Event, NodesDown, NodesDraining, NodeUp, PoolState
from standins.processes.journal import write_record


def log_event(event: Event) -> None:
    """Write one event of the model, if it is one that a person looks for."""
    if isinstance(event, CallMade):
        fields = {name: value for name, value in vars(event).items() if name != "at"}
        write_record("call", "INFO" if event.code == "OK" else "WARNING", **fields)
    elif isinstance(event, PoolState):
        severity = "WARNING" if "ERROR" in event.status else "INFO"
        write_record("pool state", severity, cluster=event.cluster.cluster, pool=event.pool, status=event.status)
    elif isinstance(event, NodeUp):
        write_record("node up", "DEBUG", pool=event.node.pool, node=event.node.name)
    elif isinstance(event, NodesDraining):
        write_record("nodes draining", "DEBUG", pool=event.pool, nodes=len(event.names))
    elif isinstance(event, NodesDown):
        write_record("nodes down", "DEBUG", pool=event.pool, nodes=len(event.names))
