"""The labels, annotations and environment variables that the fleet writes on cluster objects.

They are the fleet's only memory on a cluster: a worker that knows nothing else can tell from them whose object it sees. Anything
under the `gpufleet.io` domain is refused in what users send, so that nobody can forge them.
"""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "gpufleet.io"
USER_DOMAIN: Final = "simulation.gpufleet.io"
"""The one subdomain that users may write: it steers simulated clusters, and real clusters ignore it."""

MANAGED: Final = "gpufleet.io/managed"
"""Label, `"true"`: this object belongs to the fleet. What the observer watches by."""
JOB_ID: Final = "gpufleet.io/job-id"
"""Label and annotation: the job's id."""
EXECUTION: Final = "gpufleet.io/execution"
"""Label and annotation: the number of the execution, from 1."""
SPEC_HASH: Final = "gpufleet.io/spec-hash"
"""Annotation: the hash of the specification, by which an object of the same name is known as the same thing."""
RELEASED: Final = "gpufleet.io/released"
"""Annotation: `"no"` until the committed object was let run; written in the same patch that lets it run."""
NAME: Final = "gpufleet.io/name"
"""Annotation of a job's object and pods: the name that the user gave."""
SUBMITTED_BY: Final = "gpufleet.io/submitted-by"
"""Annotation: of an object that was applied directly, who did so through the API; of a pod of a job, who submitted the job."""
JOB_LABELS: Final = "gpufleet.io/job-labels"
"""Annotation of a pod of a job: the labels that its user gave the Job and not the pod, as a JSON object."""
RETRY_OF: Final = "gpufleet.io/retry-of"
"""Annotation of a Job that was made anew: name and UID of the one that it repeats."""
SUBMISSION: Final = "gpufleet.io/submission"
"""Annotation of a Job that was created directly: a random text, by which its creator knows its own Job again when the answer was lost."""
QUEUE: Final = "gpufleet.io/queue-name"
"""Annotation: the Kueue queue that the user asked for; it becomes Kueue's label at release, so that Kueue admits nothing before."""

TEMPLATE: Final = "gpufleet.io/template"
"""Annotation of what was made of a template: `name@version`."""
TEMPLATE_LABEL: Final = "gco.io/template"
"""Label of what was made of a template: its name, as the original writes it."""

KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""Label by which Kueue takes a Job in hand. https://kueue.sigs.k8s.io/docs/tasks/run/jobs/"""

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
EKS_CAPACITY: Final = "eks.amazonaws.com/capacityType"
"""`SPOT` on the spot nodes of an EKS managed node group."""
KARPENTER_CAPACITY: Final = "karpenter.sh/capacity-type"
"""`spot` on the spot nodes that Karpenter starts."""
KARPENTER_RESERVATION: Final = "karpenter.k8s.aws/capacity-reservation-type"
"""`capacity-block` on the nodes of capacity blocks that Karpenter starts; their capacity type is `reserved`."""
ZONE: Final = "topology.kubernetes.io/zone"

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation of a pod, `"false"`: the cluster autoscaler doesn't empty its node while it runs.
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-types-of-pods-can-prevent-ca-from-removing-a-node"""
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""Annotation of a pod, `"true"`: the same for Karpenter and EKS Auto Mode. https://karpenter.sh/docs/concepts/disruption/#pod-level-controls"""

ENV_PREFIX: Final = "GPUFLEET_"
ENV_JOB_ID: Final = "GPUFLEET_JOB_ID"
ENV_JOB_NAME: Final = "GPUFLEET_JOB_NAME"
ENV_EXECUTION: Final = "GPUFLEET_EXECUTION"


def reserved(key: str) -> bool:
    """Whether a label or annotation key is the fleet's own, so that users may not write it."""
    prefix = key.partition("/")[0].lower()
    return prefix != USER_DOMAIN and (prefix == DOMAIN or prefix.endswith("." + DOMAIN))
