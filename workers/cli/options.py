"""Options that many commands share, written once."""

from __future__ import annotations

from typing import Annotated

import typer

API = "http://127.0.0.1:8080"
"""Where `gpufleet up` puts the API."""

Api = Annotated[str, typer.Option("--api", envvar="GPUFLEET_API", help="Address of the API.")]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="GPUFLEET_KEY", help="API key; better in the environment, since others see the command line."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output, and nothing else.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where the page with this cursor ended.")]
