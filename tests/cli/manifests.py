"""Manifests for `plan`, written short: a template by its name, and what is changed in it."""

from pathlib import Path

BOMB = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 12)
)
"""A kilobyte that repeats itself to ten to the twelfth values."""
FOLDER = Path(__file__).parent / "templates"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TEMPLATES = {
    **{path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")},
    "bomb": BOMB,
    "deep": "[" * 3000,
    "nul": "\0",
    "long": "a: " + "9" * 5000,
}
JOBSET = TEMPLATES["jobset"]


def spell_out(text: str) -> str:
    """Return a text of a screen with its line breaks and tabs."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def expand(line: str) -> str:
    """Return the document of a line: its own text, or a template with edits.

    A template is `TEMPLATE NAME | old => new | + selector: value | ^ field of the pods: value`.
    """
    head, *edits = line.split(" | ")
    template, _, name = head.partition(" ")
    if template not in TEMPLATES:
        return spell_out(line)
    text = TEMPLATES[template]
    for edit in edits:
        old, _, new = spell_out(edit).partition(" =>")
        if edit.startswith("+ "):
            old, new = "nodeSelector:", f" nodeSelector:\n                {edit[2:]}"
        if edit.startswith("^ "):
            old, new = "nodeSelector:", f" {edit[2:]}\n              nodeSelector:"
        assert old in text, f"{edit}: {template} has no {old}"
        text = text.replace(old, new.removeprefix(" "))
    return text.replace("name: train", f"name: {name}", 1) if name else text
