"""What a run came to: the timeline at its end, who was refused, and what the verification found."""

from dataclasses import dataclass, field

from demo.loop.progress import Refusal
from demo.loop.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a run, from which tables and reports are made."""

    timeline: Timeline
    ended_at: float
    speed: float
    refusals: tuple[Refusal, ...] = ()
    problems: tuple[str, ...] = ()
    """What kept the end state from being verified; empty when it was."""
    notes: tuple[str, ...] = ()
    pools_left: int = 0
    own_list_calls: int = 0
    """List calls that the demo made itself while watching."""
    facts: dict[str, int] = field(default_factory=dict)
    """Counters of the run as a whole, for example the messages published."""

    @property
    def verified(self) -> bool:
        """Whether the end state was seen to be right through the public APIs."""
        return not self.problems

    @property
    def elapsed_seconds(self) -> float:
        """Real seconds from the apply to the end."""
        return self.ended_at - self.timeline.started_at

    @property
    def shared_calls(self) -> dict[str, int]:
        """GKE calls about no pool in particular, without the demo's own."""
        counts = dict(self.timeline.shared_calls)
        method = "ListNodePools"
        counts[method] = max(0, counts.get(method, 0) - self.own_list_calls)
        return {name: count for name, count in sorted(counts.items()) if count}
