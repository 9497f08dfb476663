"""Tells results: a table of scores, what was missed, and what differs from an earlier run."""

from collections.abc import Iterator, Sequence

from tests.mutants.judging import Verdict

CAUGHT, NO_PLACE = "caught", "no place"


def write_table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Return the score of each package, and of each source of mutants."""
    placed = [each for each in verdicts if each.outcome != NO_PLACE]
    for title, names in (
        ("package", sorted({each.package for each in placed if each.package})),
        ("source", sorted({_name_source(each) for each in placed})),
    ):
        yield f"{title:24} caught  of   score"
        for name in names:
            yield _write_row(name, [each for each in placed if name in (each.package, _name_source(each))])
    yield _write_row("all", placed)
    for outcome in ("survived", "not covered", NO_PLACE):
        yield from (f"{outcome}: {each.identity}" for each in verdicts if each.outcome == outcome)


def compare(before: Sequence[Verdict], now: Sequence[Verdict]) -> Iterator[str]:
    """Return the scores of the mutants that both runs have, and each that is lost or won."""
    earlier = {each.identity: each for each in before if each.outcome != NO_PLACE}
    common = [each for each in now if each.identity in earlier and each.outcome != NO_PLACE]
    yield f"{'package':24} before   now  of (mutants of both runs)"
    for name in (*sorted({each.package for each in common}), ""):
        both = [each for each in common if name in (each.package, "")]
        was = sum(earlier[each.identity].outcome == CAUGHT for each in both)
        has, of = sum(each.outcome == CAUGHT for each in both), max(len(both), 1)
        yield f"{name or 'all':24} {was / of:6.1%} {has / of:6.1%} {len(both):3}"
    for each in common:
        was_caught, is_caught = earlier[each.identity].outcome == CAUGHT, each.outcome == CAUGHT
        if was_caught != is_caught:
            yield f"{'lost' if was_caught else 'won'}: {each.identity} (before: {earlier[each.identity].test})"
    held, groups = {each.identity for each in common}, {each.group for each in now} - {"random"}
    yield from (f"gone: {name}" for name, each in earlier.items() if name not in held and each.group in groups)


def _name_source(verdict: Verdict) -> str:
    """Return by whom the mutant was made."""
    return "random" if verdict.group == "random" else "by hand"


def _write_row(name: str, verdicts: Sequence[Verdict]) -> str:
    caught = sum(each.outcome == CAUGHT for each in verdicts)
    return f"{name:24} {caught:6} {len(verdicts):3} {caught / max(len(verdicts), 1):7.1%}"
