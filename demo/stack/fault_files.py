"""Files of faults for the fake GKE, read once before a stack starts."""

from pathlib import Path

from standins.google.gke.faults.scenario import load_scenario


def find_faults(path: str) -> str:
    """Return the full path of a file of faults; no path stays empty.

    Raises ScenarioError: the file cannot be read, or something in it is wrong; the text says what.
    """
    if not path:
        return ""
    load_scenario(Path(path))
    return str(Path(path).resolve())
