"""Small jobs for the end-to-end tests."""

import json
from pathlib import Path
from typing import Any


def a_job(name: str = "small", **steering: str) -> dict[str, Any]:
    """A CPU job; `steering` tells the simulated cluster what its pod is to do (`exit_code` for `exit-code`)."""
    annotations = {f"simulation.gpufleet.io/{key.replace('_', '-')}": value for key, value in {"duration": "0.3", **steering}.items()}
    container = {
        "name": "main",
        "image": "python:3.12-slim",
        "command": ["python", "-c", "print(1)"],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def a_file(directory: Path, manifest: dict[str, Any]) -> str:
    path = directory / "job.json"
    path.write_text(json.dumps(manifest))
    return str(path)


def a_message(manifest: dict[str, Any], **more: Any) -> str:
    return json.dumps({"manifest": manifest, "target_region": "any", **more})
