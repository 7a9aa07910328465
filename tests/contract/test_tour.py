"""The tour asks every operation of the contract, each once, and by its own name."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tour_goes_by_every_operation_of_the_contract():
    contract = json.loads((ROOT / "tests" / "contracts" / "gco.openapi.json").read_text())
    operations = [f"{method.upper()} {path}" for path, methods in contract["paths"].items() for method in methods]

    told = re.findall(r'^see "([A-Z]+ /\S*)"', (ROOT / "docs" / "api-tour.sh").read_text(), re.MULTILINE)

    assert sorted(told) == sorted(operations)
