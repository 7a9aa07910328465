"""From the head and specification of a job to the objects of its execution: the `Render` that the rules of jobs ask for."""

from __future__ import annotations

from shared.clusters.placement import SpotRequest
from shared.clusters.rendering import RenderIdentity, object_name, render
from shared.jobs.model import Head, Specification
from shared.jobs.ports import Bundle


class Bundles:
    """Renders executions. Pure: the same head and specification always give the same objects."""

    def name(self, head: Head) -> str:
        """The deterministic name of the object of the head's execution."""
        return object_name(head.name, head.id, head.execution)

    def bundle(self, head: Head, specification: Specification) -> Bundle:
        """The suspended Job of the head's execution, and what stands beside it."""
        identity = RenderIdentity(
            job_id=head.id,
            execution=head.execution,
            name=head.name,
            namespace=head.namespace,
            spec_hash=head.spec_hash,
            labels=head.labels,
            spot=SpotRequest(instance_type=head.spot.instance_type) if head.spot else None,
            submitted_by=head.submitted_by,
        )
        rendered = render(specification.manifest, specification.supporting, identity=identity)
        return Bundle(job=rendered.job, supporting=tuple(rendered.supporting))
