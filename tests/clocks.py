"""A clock for tests, in place of the time of day."""


class StepClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def pause(self, seconds: float) -> None:
        self.advance(seconds)
