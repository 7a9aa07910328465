"""The pods that the Job controller makes from a template."""

from __future__ import annotations

from workers.local.cluster.job_ledger import INDEX
from workers.local.cluster.objects import Object
from workers.local.cluster.store import Entry
from workers.local.cluster.world import World


def _with_index(spec: Object, job: str, index: int) -> Object:
    variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
    containers = [{**item, "env": [*(item.get("env") or ()), variable]} for item in spec["containers"]]
    return {**spec, "hostname": f"{job}-{index}", "containers": containers}


def create_pod(world: World, job: Entry, index: int | None) -> Entry:
    """Store a new pod of a Job; `index` is for Indexed Jobs."""
    template = job.obj["spec"]["template"]
    described = template["metadata"]
    labels, annotations, spec = described.get("labels") or {}, described.get("annotations") or {}, template["spec"]
    base = f"{job.name}-"
    if index is not None:
        base = f"{job.name}-{index}-"
        labels = {**labels, INDEX: str(index)}
        annotations = {**annotations, INDEX: str(index)}
        spec = _with_index(spec, job.name, index)
    metadata = world.metadata(
        name=f"{base[:58]}{world.randomness.suffix()}",
        namespace=job.namespace,
        generateName=base,
        generation=1,
        labels=labels,
        annotations=annotations,
        ownerReferences=[
            {
                "apiVersion": job.kind.api_version,
                "kind": job.kind.kind,
                "name": job.name,
                "uid": job.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    )
    return world.store.create(world.pods, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}})
