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
_HEADERS: Final[dict[str, Any]] = {
    "X-Request-ID": {
        "description": "The request's id, made by the API; the log has it too.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    },
    "Retry-After": {"description": "When to try again, in seconds.", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {"description": "How to say who is calling (RFC 6750).", "required": True, "schema": {"type": "string"}},
    "RateLimit": {"description": "How many requests are left, and for how many seconds.", "schema": {"type": "string"}},
    "RateLimit-Policy": {"description": "How many requests one caller may make, and in how many seconds.", "schema": {"type": "string"}},
}
_OF_CODE: Final = {"401": ("WWW-Authenticate",), "429": ("Retry-After", "RateLimit", "RateLimit-Policy"), "503": ("Retry-After",)}


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


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """The description with what every operation has in common: what callers are known by, and the headers of answers.

    Every operation that can answer 401 takes a key; so the page asks for one.
    """
    scheme = {"type": "http", "scheme": "bearer", "description": "An API key: `gpufleet keys create` makes one. None on loopback."}
    document["components"] |= {"securitySchemes": {_SCHEME: scheme}, "headers": _HEADERS}
    for methods in document["paths"].values():
        for operation in methods.values():
            if "401" in operation["responses"]:
                operation["security"] = [{_SCHEME: []}]
            for code, answer in operation["responses"].items():
                answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-ID", *_OF_CODE.get(code, ()))}
    return document


def _directory() -> Path | None:
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    directory = Path(found.submodule_search_locations[0]) / "static"
    return directory if (directory / "swagger-ui-bundle.js").is_file() else None
