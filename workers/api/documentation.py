"""The page at /docs. Its scripts come from the package `fastapi-offline` where that is installed, and then need no internet.

The package is not imported, only its files are served. Without it the page loads them from a public CDN, as FastAPI's own does.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_PACKAGE: Final = "fastapi_offline"
_FILES: Final = "/docs/files"
_SCHEME: Final = "key"


def install(app: FastAPI) -> None:
    """Serve the page."""
    directory = _directory()
    if directory is not None:
        app.mount(_FILES, StaticFiles(directory=directory), name="files of the documentation")

    @app.get("/docs", include_in_schema=False)
    async def documentation(request: Request) -> HTMLResponse:
        """The API's description, to read and to try."""
        root = request.scope.get("root_path", "").rstrip("/")
        title, openapi = f"{app.title} API", f"{root}{app.openapi_url}"
        if directory is None:
            return get_swagger_ui_html(openapi_url=openapi, title=title)
        files = f"{root}{_FILES}"
        return get_swagger_ui_html(
            openapi_url=openapi,
            title=title,
            swagger_js_url=f"{files}/swagger-ui-bundle.js",
            swagger_css_url=f"{files}/swagger-ui.css",
            swagger_favicon_url=f"{files}/favicon.png",
        )


def secured(document: dict[str, Any]) -> dict[str, Any]:
    """The description with what callers are known by: every operation that can answer 401 takes a key. So the page asks for one."""
    scheme = {"type": "http", "scheme": "bearer", "description": "An API key: `gpufleet keys create` makes one. None on loopback."}
    document.setdefault("components", {})["securitySchemes"] = {_SCHEME: scheme}
    for methods in document["paths"].values():
        for operation in methods.values():
            if "401" in operation["responses"]:
                operation["security"] = [{_SCHEME: []}]
    return document


def _directory() -> Path | None:
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    directory = Path(found.submodule_search_locations[0]) / "static"
    return directory if (directory / "swagger-ui-bundle.js").is_file() else None
