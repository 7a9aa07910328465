"""`gpufleet openapi`: the description of the whole API, made here without a server, AWS or a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from workers.cli import output
from workers.cli.failures import CommandError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("openapi")(openapi)


def openapi(out: Annotated[Path | None, typer.Option(help="A file to write instead of standard output.")] = None) -> None:
    """Print the OpenAPI document of every door, as an API serves it at /openapi.json. The same release prints the same bytes."""
    from workers.api.app import description

    text = json.dumps(description(), indent=2)
    if out is None:
        output.write_text(text)
        return
    try:
        out.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise CommandError.at("--out", str(out), f"must be a file that can be written: {error.strerror}") from error
