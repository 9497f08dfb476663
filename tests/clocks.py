"""A clock for tests, in place of the time of day."""


class StepClock:
    """A clock that moves only when told to, or by a step each time that it is read."""

    def __init__(self, time: float, step: float = 0.0) -> None:
        self.time, self.step = time, step

    def now(self) -> float:
        self.time += self.step
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds
