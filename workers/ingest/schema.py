"""`python -m workers.ingest.schema`: prints the JSON Schema of the queue's messages, as docs/submission.schema.json has it."""

from __future__ import annotations

import json
import sys

from shared.queues.submissions import json_schema


def text() -> str:
    """The schema as the file has it."""
    return json.dumps(json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
