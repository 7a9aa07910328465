"""From a file's documents to submissions."""

from typing import Any

import pytest

from workers.cli.bundles import bundled, load_bundles
from workers.cli.failures import CommandError


def thing(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}}


def shape(*documents: dict[str, Any]) -> list[tuple[str, list[str]]]:
    found = bundled(list(documents), source="file")
    return [(one.name, [item["metadata"]["name"] for item in one.supporting]) for one in found]


def test_one_job_takes_everything_in_the_file() -> None:
    assert shape(thing("Service", "a"), thing("Job", "j"), thing("ConfigMap", "b")) == [("j", ["a", "b"])]


def test_what_follows_a_job_is_its_own_and_what_comes_first_is_the_firsts() -> None:
    documents = [thing("ConfigMap", "c"), thing("Job", "one"), thing("Service", "s1"), thing("Job", "two"), thing("Service", "s2")]

    assert shape(*documents, thing("Job", "three")) == [("one", ["c", "s1"]), ("two", ["s2"]), ("three", [])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"kind: Service\n", "must hold a Job"),
        (b"", "must hold a Job"),
        (b"a: [1\n", "must be YAML"),
        (b'{"a": 1, "a": 2}', "/0"),
        (b"\xff\xfe", "UTF-8"),
        (b"- 1\n", "must be an object"),
        (b" " * (4 * 1024 * 1024 + 1), "must be at most 4 MiB (4194304 bytes)"),
    ],
)
def test_what_is_no_submission_is_refused_with_file_and_rule(text: bytes, expected: str) -> None:
    with pytest.raises(CommandError) as caught:
        load_bundles(text, source="train.yaml")

    told = "\n".join([caught.value.message, *map(str, caught.value.faults)])
    assert "train.yaml" in told
    assert not any(python in told for python in ("None", "b'", "nothing"))
    assert expected in told
    assert caught.value.code == 2
