"""Reading manifests: what is accepted as found in the wild, and what is refused with its place."""

from pathlib import Path

import pytest

from demo.loop.demo_manifests import BadManifest, load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: NAME}
spec:
  replicatedJobs:
    - name: slice
      template: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_one_text_may_name_several_files_separated_by_spaces(tmp_path: Path) -> None:
    first = write(tmp_path, "a.yaml", JOBSET.replace("NAME", "one"))
    second = write(tmp_path, "b.yaml", JOBSET.replace("NAME", "two"))
    assert [document.name for document in load([f"{first} {second}"])] == ["one", "two"]


def test_a_path_with_a_space_is_taken_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, "my job.yaml", JOBSET)
    assert len(load([path])) == 1


def test_globs_and_folders_are_expanded_once_each(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", JOBSET.replace("NAME", "one"))
    write(tmp_path, "b.yml", JOBSET.replace("NAME", "two"))
    write(tmp_path, "notes.txt", "not a manifest")
    assert len(load([str(tmp_path), str(tmp_path / "*.yaml")])) == 2


def test_a_jobset_may_wait_for_the_end_of_one_before_it_and_for_nothing_else(tmp_path: Path) -> None:
    first = JOBSET.replace("NAME", "one")
    second = JOBSET.replace("NAME", "two, annotations: {local.tpu-provisioner/apply-after: one}")
    documents = load([write(tmp_path, "a.yaml", f"{first}\n---\n{second}")])
    assert [document.after for document in documents] == ["", "one"]
    with pytest.raises(BadManifest, match=r"document 1: .*apply-after: .*\(got 'one'\); valid: no such"):
        load([write(tmp_path, "b.yaml", f"{second}\n---\n{first}")])
    third = JOBSET.replace(
        "{name: NAME", "{generateName: t, annotations: {local.tpu-provisioner/apply-after: one}"
    )
    with pytest.raises(BadManifest, match=r"document 2: .*\(got 'one'\); valid: one"):
        load([write(tmp_path, "c.yaml", f"{first}\n---\n{third}")])


def test_other_kinds_empty_documents_and_lists_are_read(tmp_path: Path) -> None:
    text = f"""
---
apiVersion: v1
kind: List
items:
  - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: config}}}}
---
{JOBSET}
---
"""
    documents = load([write(tmp_path, "a.yaml", text)])
    assert [document.kind for document in documents] == ["ConfigMap", "JobSet"]


def test_a_generated_name_is_allowed_and_may_repeat(tmp_path: Path) -> None:
    generated = JOBSET.replace("name: NAME", "generateName: run-")
    documents = load([write(tmp_path, "a.yaml", generated + "---" + generated)])
    assert [document.name for document in documents] == ["run-", "run-"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "is not YAML"),
        ("just text", "not an object"),
        ("kind: JobSet", "apiVersion: is missing"),
        ("apiVersion: v1\nkind: ConfigMap", "metadata: is missing"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}", "metadata.name: is missing"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", "contains no JobSet (found: ConfigMap)"),
        ("", "contains no JobSet (found: no objects)"),
        ("apiVersion: v1\nkind: List\nitems: 3", "items: is not a list"),
        (JOBSET.split("spec:", maxsplit=1)[0], "spec.replicatedJobs: is missing or empty"),
        (JOBSET.replace("[{name: a, image: b}]", "[]"), "spec.replicatedJobs[0].template"),
        (f"{JOBSET}---{JOBSET}", "JobSet default/NAME is also in"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, "wrong.yaml", text)
    with pytest.raises(BadManifest) as caught:
        load([path])
    assert expected in str(caught.value)
    assert "wrong.yaml" in str(caught.value)


def test_the_number_of_the_wrong_document_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "wrong.yaml", f"{JOBSET}---\nkind: Service\n")
    with pytest.raises(BadManifest, match=r"wrong\.yaml, document 2: apiVersion"):
        load([path])


@pytest.mark.parametrize("pattern", ["missing.yaml", "no-*.yaml", "", "   "])
def test_what_does_not_exist_is_refused(pattern: str) -> None:
    with pytest.raises(BadManifest):
        load([pattern])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadManifest, match="contains no manifest"):
        load([str(tmp_path)])


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadManifest, match=r"binary\.yaml: is not"):
        load([str(path)])


def test_every_example_is_a_good_manifest() -> None:
    documents = load([str(EXAMPLES)])
    assert sum(document.is_jobset for document in documents) >= 10
