"""The index that `/` answers with names every operation of the door, and no other."""

from __future__ import annotations

from types import SimpleNamespace

from shared.settings import Settings
from workers.api.app import create_app
from workers.api.gco.endpoints import ENDPOINTS


def test_every_operation_of_the_door_is_in_the_index():
    document = create_app(SimpleNamespace(settings=Settings())).openapi()
    operations = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}

    assert set(ENDPOINTS.values()) - {"GET /docs"} == {one for one in operations if not one.split()[1].startswith("/fleet/")} - {"GET /"}
    assert len(set(ENDPOINTS.values())) == len(ENDPOINTS)
