"""Terraform is applied again where time mends what Google refuses, and only there."""

from tests.infra.build_scripts import BESIDE_A_CLUSTER, Bench

ACT_AS = "Error: googleapi: Error 403: Permission 'iam.serviceaccounts.actAs' denied on service account x"
UNKNOWN = "Error: googleapi: Error 400: Service account x@p.iam.gserviceaccount.com does not exist., badRequest"
LIMITED = 'Error: Error setting IAM policy for project "p": googleapi: Error 403: Policy update access denied.'
TOO_EARLY = "Error: Provider produced inconsistent final plan"


def test_what_an_update_of_the_cluster_changed_is_planned_again(bench: Bench) -> None:
    done = bench.apply(BESIDE_A_CLUSTER, TOO_EARLY)
    assert "The cluster was updated, so what depends on it is planned again" in done.stdout
    bench.apply(BESIDE_A_CLUSTER, TOO_EARLY, TOO_EARLY, TOO_EARLY, code=1)


def test_terraform_is_applied_again_until_a_new_grant_has_its_effect(bench: Bench) -> None:
    done = bench.apply(BESIDE_A_CLUSTER, UNKNOWN, ACT_AS)

    assert "may have no effect yet: wait 2 of 6" in done.stdout
    assert UNKNOWN in done.stderr
    assert ACT_AS in done.stderr


FRESH = [
    # https://github.com/GoogleCloudPlatform/terraform-ml-image-annotation-gcf/pull/165
    (
        "Error: Error waiting to create function: Error waiting for Creating function: Error code 7, message: "
        "Unable to retrieve the repository metadata for projects/p/locations/l/repositories/gcf-artifacts."
    ),
    # https://github.com/hashicorp/terraform-provider-google/issues/21857
    (
        "Error: Error waiting to create function: Error waiting for Creating function: Error code 7, message: "
        "Could not build the function due to missing permissions. Error determining source provenance"
    ),
    # https://github.com/hashicorp/terraform-provider-google/issues/20571
    (
        "Error: Error waiting to create function: Error waiting for Creating function: Error code 13, message: "
        "Build failed with status: FAILURE and message: failed to Fetch: failed to download archive "
        "gs://gcf-v2-sources-1-l/f/function-source.zip: "
        "Access to bucket gcf-v2-sources-1-l denied. You must grant Storage Object Viewer"
    ),
    # https://github.com/hashicorp/terraform-provider-google/issues/3967
    "Error: Error creating Topic: googleapi: Error 403: User not authorized to perform this action.",
    # https://github.com/GoogleCloudPlatform/cloud-ops-sandbox/issues/896
    (
        "Error: Error creating Slo: googleapi: Error 400: Invalid SLO definition: The metric referenced by the "
        "provided filter is unknown. Check the metric name and labels."
    ),
    # https://github.com/hashicorp/terraform-provider-google/issues/11102
    (
        "Error: Error creating AlertPolicy: googleapi: Error 404: Cannot find metric(s) that match type = "
        '"logging.googleapis.com/user/x". If a metric was created recently, it could take up to 10 minutes'
    ),
]
"""What Google says of accounts, grants and metrics that are seconds old, as operations too."""


def test_what_is_not_known_everywhere_yet_is_tried_again_also_if_an_operation_says_so(bench: Bench) -> None:
    done = bench.apply(BESIDE_A_CLUSTER, *FRESH)

    assert "may have no effect yet: wait 6 of 6" in done.stdout


def test_a_grant_that_never_has_an_effect_ends_the_build(bench: Bench) -> None:
    done = bench.apply(BESIDE_A_CLUSTER, *[ACT_AS] * 7, code=1)

    assert "wait 6 of 6" in done.stdout
    assert "Terraform failed; correct what it says above" in done.stderr
    done = bench.apply(BESIDE_A_CLUSTER, *[LIMITED] * 7, code=1)
    assert "a person runs LIMIT_GRANTS=true infra/build/deployer.sh again" in done.stderr


def test_an_error_that_time_does_not_mend_is_not_tried_again(bench: Bench) -> None:
    quota = "Error: googleapi: Error 403: Quota 'CPUS' exceeded. Limit: 8.0"
    broken = "Error: Error waiting for Creating function: Error code 3, message: Build failed: no main.py"
    for error in (quota, broken):
        done = bench.apply(BESIDE_A_CLUSTER, error, code=1)
        assert "wait 1 of" not in done.stdout
