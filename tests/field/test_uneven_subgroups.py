"""`plan` refuses sub-groups that LeaderWorkerSet's webhook refuses: no pod of them ever exists."""

from tests.field.planned import plan_needs

WORDS = {
    "uneven": "subGroupSize 4: size 6 or size - 1 must be divisible by it",
    "larger-than-the-group": "subGroupSize 8: subGroupSize cannot be larger than size 4",
    "leader-excluded": "subGroupSize 4: size-1 must be divisible by it when using LeaderExcluded (size 8)",
    "none": "subGroupSize 0: subGroupSize must be equal or greater than 1",
}


def test_the_webhook_is_quoted_and_an_even_group_gets_its_pools() -> None:
    needs = plan_needs("uneven-subgroups.yaml")

    assert {name: text for name, text in WORDS.items() if text not in needs[name]["message"]} == {}
    assert {needs[name]["reason"] for name in WORDS} == {"manifest_invalid"}
    assert (needs["even"]["decision"], needs["even"]["pools"]) == ("create", 2)
