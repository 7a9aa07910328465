"""What a route asks for by type."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from workers.api.core import Core


def _core(request: Request) -> Core:
    core: Core = request.app.state.core
    return core


CoreOf = Annotated[Core, Depends(_core)]
"""The services of this app."""
