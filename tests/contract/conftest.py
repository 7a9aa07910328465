"""The description of the API, made once."""

from typing import Any

import pytest

from workers.api.app import description


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    return description()
