"""The rules of what keeps pods running, Deployments, StatefulSets and DaemonSets, and of bare pods.

Source: `ValidateDeploymentSpec`, `ValidateStatefulSetSpec` and `ValidateDaemonSetSpec` in kubernetes/pkg/apis/apps/validation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from shared.clusters.label_grammar import is_dns_subdomain
from shared.clusters.selectors import Operator, Requirement
from shared.policy.fields import Field
from shared.policy.metadata import SUBDOMAIN_RULE, check_marks, check_name
from shared.policy.pods import check_pod, check_pod_labels, check_pod_template
from shared.policy.resources import Demand, check_caps, pod_demand
from shared.policy.settings import Policy

_OPERATORS: Final = {"In": Operator.IN, "NotIn": Operator.NOT_IN, "Exists": Operator.EXISTS, "DoesNotExist": Operator.MISSING}
_NOT_NEGATIVE: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


def check_deployment(deployment: Field, policy: Policy) -> Demand:
    """Check a Deployment. It holds its replicas: a rollout's surge is another version of at most as many, for as long as it takes."""
    return _check_replicated(deployment, policy, "Deployment")


def check_stateful_set(stateful: Field, policy: Policy) -> Demand:
    """Check a StatefulSet. It holds its replicas."""
    claims = set()
    for claim in stateful.within("spec", "volumeClaimTemplates").elements():
        check_marks(claim["metadata"])
        claims.add(claim["metadata"]["name"].text)
    return _check_replicated(stateful, policy, "StatefulSet", claims=claims)


def check_daemon_set(daemon: Field, policy: Policy) -> Demand:
    """Check a DaemonSet. It counts as one pod: there is one on each node, and nobody knows how many nodes there will be."""
    _check_kept_running(daemon, policy, "DaemonSet")
    pod = daemon.within("spec", "template", "spec")
    return check_caps(pod, pod, pod_demand(pod, policy), 1, policy, noun="DaemonSet")


def check_bare_pod(pod: Field, policy: Policy) -> Demand:
    """Check a pod that no controller makes."""
    check_name(pod["metadata"], is_dns_subdomain, SUBDOMAIN_RULE)
    spec = pod["spec"]
    if not isinstance(spec.value, dict):
        spec.refuse("must be given in Pod")
    check_pod(pod, policy)
    return check_caps(spec, spec, pod_demand(spec, policy), 1, policy, noun="Pod")


def _check_replicated(found: Field, policy: Policy, kind: str, *, claims: Collection[str] = ()) -> Demand:
    _check_kept_running(found, policy, kind, claims=claims)
    pod, replicas = found.within("spec", "template", "spec"), found.within("spec", "replicas")
    count = 1 if replicas.integer is None else max(replicas.integer, 0)
    return check_caps(pod, replicas, pod_demand(pod, policy), count, policy, noun=kind)


def _check_kept_running(found: Field, policy: Policy, kind: str, *, claims: Collection[str] = ()) -> None:
    check_name(found["metadata"], is_dns_subdomain, SUBDOMAIN_RULE)
    spec, template = found["spec"], found.within("spec", "template")
    if not isinstance(spec.value, dict):
        spec.refuse(f"must be given in {kind}")
    for name in _NOT_NEGATIVE:
        if (spec[name].integer or 0) < 0:
            spec[name].refuse("must not be negative")
    _check_selector(spec["selector"], template.within("metadata", "labels"))
    restart, deadline = template.within("spec", "restartPolicy"), template.within("spec", "activeDeadlineSeconds")
    if restart.value not in (None, "", "Always"):
        restart.refuse(f"must be Always in a {kind}, or left out")
    if deadline.given:
        deadline.refuse(f"must be left out in a {kind}, which runs until it is deleted")
    check_pod_template(template, policy, claims=claims)


def _check_selector(selector: Field, labels: Field) -> None:
    """A selector that doesn't take its own pods is refused by the API server; one that takes all is a way to other pods."""
    check_pod_labels(selector["matchLabels"])
    wanted = [Requirement(key=key, operator=Operator.IN, values=frozenset({value.text})) for key, value in selector["matchLabels"].items()]
    for expression in selector["matchExpressions"].elements():
        operator = _OPERATORS.get(expression["operator"].text)
        if operator is None:
            expression["operator"].refuse(f"must be one of {', '.join(_OPERATORS)}")
            return
        values = frozenset(value.text for value in expression["values"].elements())
        wanted.append(Requirement(key=expression["key"].text, operator=operator, values=values))
    given = {key: value.text for key, value in labels.items()}
    if not wanted:
        selector.refuse("must name labels of its pods: an empty one takes every pod of the namespace")
    elif not all(one.matches(given) for one in wanted):
        selector.refuse("must match the labels of its own pod template")
