"""Our rules for Terraform configurations: functions from parsed text to what breaks the rule.

The same rules hold for every module and root; `POLICIES` is the list of them.
"""

import re
from collections.abc import Callable

from tests.infra.terraform_text import Body, Configuration, expected_failures

PRIMITIVE_ROLES = ("roles/owner", "roles/editor", "roles/viewer", "roles/browser")
EVERYBODY = ("allUsers", "allAuthenticatedUsers")
_EXACT = re.compile(r"~> \d+\.\d+(\.\d+)?|= ?\d+\.\d+\.\d+|\d+\.\d+\.\d+")
_REMEDY = re.compile(r"(must|name|give|set|choose|at least|at most)", re.IGNORECASE)
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$|^\$\{")


def subscriptions_last(configuration: Configuration) -> list[str]:
    """Every subscription never expires: an idle one is deleted after 31 days by default."""
    return [
        f'{each.address}: expiration_policy {{ ttl = "" }} is missing'
        for each in configuration.of("resource", "google_pubsub_subscription")
        if [policy.get("ttl") for policy in each.blocks("expiration_policy")] != [""]
    ]


def pushes_have_dead_letters(configuration: Configuration) -> list[str]:
    """Every push subscription has a dead-letter policy.

    Without one, a poisonous message slows all others for days.
    """
    return [
        f"{each.address}: a push subscription without dead_letter_policy"
        for each in configuration.of("resource", "google_pubsub_subscription")
        if each.blocks("push_config") and not each.blocks("dead_letter_policy")
    ]


def pushes_prove_who_they_are(configuration: Configuration) -> list[str]:
    """Every push carries an OIDC token with an audience."""
    return [
        f"{each.address}: push_config without oidc_token {{ service_account_email, audience }}"
        for each in configuration.of("resource", "google_pubsub_subscription")
        for push in each.blocks("push_config")
        if [set(token) >= {"service_account_email", "audience"} for token in push.get("oidc_token", [])] != [True]
    ]


def nobody_anonymous(configuration: Configuration) -> list[str]:
    """No grant to everybody."""
    return [f"{text!r} is granted something" for text in configuration.strings() if text in EVERYBODY]


def no_primitive_roles(configuration: Configuration) -> list[str]:
    """No owner, editor or viewer of a whole project."""
    return [f"{text!r}: name the permissions" for text in configuration.strings() if text in PRIMITIVE_ROLES]


def versions_are_pinned(configuration: Configuration) -> list[str]:
    """Terraform has a least version; every provider and external module keeps its major version."""
    problems = []
    if not any("required_version" in each for each in configuration.settings):
        problems.append("terraform: required_version is missing")
    providers = [found for each in configuration.settings for found in each.get("required_providers", [])]
    for named in providers:
        for name, fields in named.items():
            version = fields.get("version", "") if isinstance(fields, dict) else ""
            if not _EXACT.fullmatch(version):
                problems.append(f"provider {name}: version {version!r} is not pinned (~> MAJOR.MINOR)")
    for module in configuration.of("module"):
        source = str(module.body.get("source", ""))
        if not source.startswith(("./", "../")) and not _EXACT.fullmatch(str(module.body.get("version", ""))):
            problems.append(f"{module.address}: {source!r} has no exact version")
    return problems


def images_are_pinned(configuration: Configuration) -> list[str]:
    """An image is named by digest."""
    return [
        f"{block.address}: image {image!r} has no digest"
        for block in configuration.of("resource")
        for image in _images(block.body)
        if not _DIGEST.search(image)
    ]


def variables_explain_themselves(configuration: Configuration) -> list[str]:
    """Every variable has a type and a description, every output a description."""
    problems = []
    for each in configuration.of("variable"):
        problems += [
            f"{each.address}: {key} is missing" for key in ("type", "description") if not each.body.get(key)
        ]
    for each in configuration.of("output"):
        problems += [f"{each.address}: description is missing" for _ in [0] if not each.body.get("description")]
    return problems


def nothing_is_created_before_it_is_destroyed(configuration: Configuration) -> list[str]:
    """What is replaced is first destroyed, because the new one has the same name.

    Terraform also creates all first that such a resource depends on
    (https://developer.hashicorp.com/terraform/language/meta-arguments/lifecycle#create_before_destroy).
    """
    return [
        f"{each.address}: create_before_destroy fails for it, or for what it depends on: the name is taken"
        for each in configuration.of("resource")
        if any("create_before_destroy" in rules for rules in each.blocks("lifecycle"))
    ]


def validations_say_what_is_valid(configuration: Configuration) -> list[str]:
    """Every message of a validation tells what to do, not only what is wrong."""
    return [
        f"{each.address}: {fields.get('error_message', '')!r} does not say what would be valid"
        for each in configuration.of("variable")
        for fields in each.blocks("validation")
        if not _REMEDY.search(str(fields.get("error_message", "")))
    ]


def validations_are_tested(configuration: Configuration, runs: list[Body]) -> list[str]:
    """Every validation has its own failing case: at least as many runs expect a failure."""
    problems = []
    for each in configuration.of("variable"):
        wanted = len(each.blocks("validation"))
        found = sum(f"var.{each.name}" in expected_failures(run) for run in runs)
        if found < wanted:
            problems.append(f"{each.address}: {wanted} validations, {found} failing cases")
    return problems


def _images(value: object) -> list[str]:
    found: list[str] = []
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "image" and isinstance(each, str):
                found.append(each)
            found += _images(each)
    elif isinstance(value, list):
        for each in value:
            found += _images(each)
    return found


POLICIES: tuple[Callable[[Configuration], list[str]], ...] = (
    subscriptions_last,
    pushes_have_dead_letters,
    pushes_prove_who_they_are,
    nobody_anonymous,
    no_primitive_roles,
    versions_are_pinned,
    images_are_pinned,
    variables_explain_themselves,
    nothing_is_created_before_it_is_destroyed,
    validations_say_what_is_valid,
)
