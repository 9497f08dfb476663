"""Which scenarios only the real cluster can play, and why."""

REAL_ONLY = {
    "test_jobset_that_is_installed_later_is_noticed_without_a_restart": (
        "the embedded cluster knows JobSets from its start: its kinds are a table and not definitions"
    ),
    "test_data_that_was_set_back_is_noticed_by_who_was_away_meanwhile": (
        "the embedded cluster keeps its objects in memory and cannot be set back"
    ),
    "test_without_jobsets_webhooks_what_is_refused_comes_later_and_what_is_over_is_given_back": (
        "the embedded cluster's JobSet is a part of its one process and cannot be down by itself"
    ),
}
