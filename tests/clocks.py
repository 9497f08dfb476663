"""A clock for tests, in place of the time of day."""


class StepClock:
    """A clock that moves only when told to."""

    def __init__(self, time: float) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds
