"""Who interrupts pods, and in which words: the condition DisruptionTarget, and the event that tells of it.

https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.local.cluster.event_recorder import SCHEDULER


@dataclass(frozen=True, kw_only=True, slots=True)
class Disruption:
    """`message` is that of the condition. The other fields are the event's: who tells it, its reason, and its text about `{pod}`."""

    message: str
    component: str
    event: str
    text: str
    warning: bool = False


_BY_REASON = {
    "DeletionByTaintManager": Disruption(
        message="Taint manager: deleting due to NoExecute taint",
        component="taint-eviction-controller",
        event="TaintManagerEviction",
        text="Marking for deletion Pod {pod}",
    ),
    "EvictionByEvictionAPI": Disruption(
        message="Eviction API: evicting", component="karpenter", event="Evicted", text="Evicted pod: its node is drained"
    ),
    "PreemptionByScheduler": Disruption(
        message="default-scheduler: preempting to accommodate a higher priority pod",
        component=SCHEDULER,
        event="Preempted",
        text="Preempted by a pod of higher priority",
    ),
    "TerminationByKubelet": Disruption(
        message="The node was low on resource: memory.",
        component="kubelet",
        event="Evicted",
        text="The node was low on resource: memory.",
        warning=True,
    ),
}
_OTHER = Disruption(message="the pod was evicted", component="kubelet", event="Evicted", text="the pod was evicted", warning=True)


def disruption(reason: str) -> Disruption:
    """What belongs to a reason of DisruptionTarget; something plain for one that Kubernetes doesn't know."""
    return _BY_REASON.get(reason, _OTHER)
