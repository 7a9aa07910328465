"""The commands that the guides tell to run: each is one that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from infra.conditions import CONDITIONS
from workers.cli.main import app

ROOT = Path(__file__).parents[3]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "infra").rglob("*.md"))]
_COMMAND = re.compile(r"(?:^ {4,}|`|\$ |&& )(gpufleet [^`\n#]*)", re.MULTILINE)


def told(text):
    """The commands in a text, as words: of a block of code or between backquotes, of several ones that are told by `|` the first."""
    lines = [shlex.split(found[1]) for found in _COMMAND.finditer(text)]
    return [list(takewhile(lambda word: word not in {"|", "…"}, words)) for words in lines]


def fault(words):
    """What the program has against a command line, which it does not run. One that only names a command may lack arguments."""
    try:
        _parse(words)
    except Exception as error:  # noqa: BLE001  # what typer raises of usage is no class of its own interface
        return None if re.search(r"^Missing parameter|requires an argument\.$", str(error)) else str(error)
    return None


def _parse(words):
    command, name, rest, context = typer.main.get_command(app), "gpufleet", words[1:], None
    while True:
        context = command.make_context(name, list(rest), parent=context)
        arguments = [*getattr(context, "_protected_args", ()), *context.args]
        if not hasattr(command, "resolve_command") or not arguments:
            return
        name, command, rest = command.resolve_command(context, arguments)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_guide_tells_of_commands_that_there_are(guide):
    found = {shlex.join(words): fault(words) for words in told(guide.read_text(encoding="utf-8"))}
    assert {line: wrong for line, wrong in found.items() if wrong is not None} == {}


def test_what_alarms_say_to_do_are_commands_that_there_are():
    found = [words for one in CONDITIONS for words in told(f"{one.meaning} {one.action}")]
    assert [wrong for words in found if (wrong := fault(words)) is not None] == []


def test_an_option_and_a_command_that_there_are_not_are_seen():
    assert len(told((ROOT / "docs" / "operations.md").read_text(encoding="utf-8"))) > 20
    assert fault(["gpufleet", "jobs", "--state", "queued"]) == "No such option: --state"
    assert fault(["gpufleet", "regions", "forget", "eu-west-1"]) == "No such command 'forget'."
    assert fault(["gpufleet", "regions", "drain", "eu-west-1", "--reason", "new"]) is None
