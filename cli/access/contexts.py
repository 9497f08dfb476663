"""Which deployment a command is about, in this order of precedence.

1. the options ``--project``, ``--cluster`` and ``--context``
2. the variables ``TPU_PROVISIONER_*`` of the environment
3. the file of `cli.access.config_file`
4. the local stack of this folder or a folder above
5. the current context of the kubeconfig, if it is one of GKE
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cli.access.config_file import CHOICES, find_file, read_file
from cli.exit_codes import BadInput
from shared.core.settings import CLUSTER
from shared.environment import name_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CLUSTERS = name_variable("clusters")
LOCAL_STACK = Path(".local/operator.json")
"""Where a local stack (``make up``) writes its variables; gone when it ends."""
_GKE_CONTEXT_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the command line or the file says of the cluster; empty for what it does not say."""

    project: str = ""
    cluster: str = ""
    """A name, or ``projects/P/locations/L/clusters/C``."""
    context: str = ""

    @property
    def given(self) -> bool:
        """Return whether it chooses a cluster."""
        return bool(self.project or self.cluster or self.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One context of a kubeconfig."""

    name: str
    server: str
    cluster: str
    """``projects/P/locations/L/clusters/C``; empty for a context that gcloud did not write."""


def resolve(environ: Mapping[str, str], choice: Choice, *, say: Callable[[str], None]) -> dict[str, str]:
    """Return the variables of the chosen deployment.

    Args:
        environ: the environment; nothing but TPU_PROVISIONER_*, HOME, XDG_CONFIG_HOME and
            KUBECONFIG is looked at.
        choice: from the command line.
        say: is told what was chosen, where the environment does not say it.

    Raises:
        BadInput: the choice does not name one cluster, or a file cannot be read.
    """
    kept = read_file(file := find_file(environ))
    merged = {name_variable(key): value for key, value in kept.items() if key not in CHOICES} | dict(environ)
    choice = complete_choice(environ, choice)
    if CLUSTERS in merged and not choice.context:
        narrowed = merged | _narrow(merged[CLUSTERS], choice)
        if CLUSTERS not in environ:
            say(f"deployment: {_show(choice) if choice.given else 'the clusters'} of {file}")
        return narrowed
    if not choice.given:
        stack = find_local_stack(Path.cwd())
        if stack is not None:
            say(f"deployment: the local stack of {stack.parent.parent}")
            return _read_stack(stack) | dict(environ)
    path = environ.get("KUBECONFIG") or str(Path(environ.get("HOME") or Path("~").expanduser()) / ".kube/config")
    contexts, current = read_contexts(path, demanded=choice.given)
    found = _choose(contexts, current, choice, path)
    if found is None:
        return merged
    entry = {"endpoint": found.server} | ({"zone": kept["zone"]} if "zone" in kept else {})
    say(f"deployment: {found.cluster} by context {found.name} of {path}; the functions' settings: defaults")
    return merged | {
        CLUSTERS: json.dumps({found.cluster: entry}),
        name_variable("kubeconfig"): path,
        name_variable("context"): found.name,
    }


def complete_choice(environ: Mapping[str, str], choice: Choice) -> Choice:
    """Return what the command line chooses, else what the file does; the environment wins over it.

    Raises:
        BadInput: the file cannot be read.
    """
    if choice.given or CLUSTERS in environ:
        return choice
    kept = read_file(find_file(environ))
    return Choice(**{key: value for key, value in kept.items() if key in CHOICES and key != "zone"})


def find_local_stack(folder: Path) -> Path | None:
    """Return the file of the local stack of a folder, or of the nearest one above; None if none."""
    for each in (folder, *folder.parents):
        if (each / LOCAL_STACK).is_file():
            return each / LOCAL_STACK
    return None


def _read_stack(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): str(value) for key, value in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: is not a file that make up writes; valid: a new stack (make down up)") from error


def _narrow(clusters: str, choice: Choice) -> dict[str, str]:
    """Return the setting of the clusters with the chosen ones only; nothing without a choice."""
    if not (choice.cluster or choice.project):
        return {}
    try:
        known: dict[str, Any] = dict(json.loads(clusters))
    except (ValueError, TypeError):
        return {}  # the reader of the settings says what is wrong
    found = {name: context for name, context in known.items() if _fits(name, choice)}
    if not found:
        raise BadInput(f"{_show(choice)}: is not in {CLUSTERS}; valid: {', '.join(known) or 'none'}")
    return {CLUSTERS: json.dumps(found)}


def read_contexts(paths: str, *, demanded: bool) -> tuple[list[Context], str]:
    """Return the contexts of kubeconfig files, which a colon joins, and the current one's name.

    Raises:
        BadInput: none can be read although one is demanded, or one is no kubeconfig.
    """
    found: dict[str, Context] = {}
    current = ""
    files = [body for path in paths.split(":") if path and (body := _read_kubeconfig(Path(path)))]
    if demanded and not files:
        raise BadInput(
            f"KUBECONFIG: there is no file (got {paths!r}); valid: gcloud container clusters get-credentials"
        )
    for contexts, chosen in files:
        current = current or chosen
        for each in contexts:
            found.setdefault(each.name, each)
    return list(found.values()), current


def _read_kubeconfig(path: Path) -> tuple[list[Context], str] | None:
    """Return the contexts of a kubeconfig, and the current one's name; None if there is no file."""
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        servers = {each["name"]: each["cluster"].get("server", "") for each in body.get("clusters") or ()}
        found = []
        for each in body.get("contexts") or ():
            name, server = str(each["name"]), str(servers.get(each["context"].get("cluster"), ""))
            found.append(Context(name=name, server=server, cluster=_parse_gke(name)))
        return found, str(body.get("current-context") or "")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"kubeconfig {path}: cannot be read: {error.strerror}; valid: a readable file") from error
    except (yaml.YAMLError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"kubeconfig {path}: is not valid; valid: a kubeconfig as kubectl reads it") from error


def _parse_gke(name: str) -> str:
    """Return the cluster that gcloud named a context after: ``gke_PROJECT_LOCATION_CLUSTER``."""
    kind, _, rest = name.partition("_")
    parts = [kind, *rest.rsplit("_", 2)]
    if kind != "gke" or len(parts) != _GKE_CONTEXT_PARTS:
        return ""
    _, project, location, cluster = parts
    path = f"projects/{project}/locations/{location}/clusters/{cluster}"
    return path if CLUSTER.accepts(path) else ""


def _choose(contexts: list[Context], current: str, choice: Choice, path: str) -> Context | None:
    names = [each.name for each in contexts]
    if not choice.given:
        return next((each for each in contexts if each.name == current and each.cluster), None)
    if choice.context:
        found = next((each for each in contexts if each.name == choice.context), None)
        if found is None:
            valid = ", ".join(names) or "none"
            raise BadInput(f"--context: is not in {path} (got {choice.context!r}); valid: {valid}")
        if CLUSTER.accepts(choice.cluster):
            return Context(name=found.name, server=found.server, cluster=choice.cluster)
        if not found.cluster:
            what = "does not name a cluster of GKE"
            valid = f"gke_PROJECT_LOCATION_CLUSTER, or --cluster={CLUSTER.text} too"
            raise BadInput(f"--context: {what} (got {choice.context!r}); valid: {valid}")
        contexts = [found]
    fitting = [each for each in contexts if each.cluster and _fits(each.cluster, choice)]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(each.cluster for each in (fitting or contexts) if each.cluster)
    what = "names several clusters" if fitting else f"is not a cluster of {path}"
    raise BadInput(f"{_show(choice)}: {what}; valid: {shown or 'gcloud container clusters get-credentials first'}")


def _fits(name: str, choice: Choice) -> bool:
    _, project, _, _, _, short = [*name.split("/"), *[""] * 6][:6]
    return (not choice.project or project == choice.project) and choice.cluster in ("", name, short)


def _show(choice: Choice) -> str:
    given = {"--project": choice.project, "--cluster": choice.cluster}
    return " ".join(f"{key}={value}" for key, value in given.items() if value) or f"--context={choice.context}"
