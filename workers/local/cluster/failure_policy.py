"""`podFailurePolicy`: what one failed pod means for its Job (https://kubernetes.io/docs/tasks/job/pod-failure-policy/)."""

from __future__ import annotations

from dataclasses import dataclass

from workers.local.cluster.objects import Object

COUNT, IGNORE, FAIL_JOB = "Count", "Ignore", "FailJob"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What to do about a failed pod; `message` explains a FailJob."""

    action: str
    message: str = ""


_COUNT = Verdict(action=COUNT)


def judge(policy: Object | None, pod: Object) -> Verdict:
    """The action of the first rule that matches; a pod that none matches counts."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        why = _matched_exit_code(rule.get("onExitCodes"), pod) or _matched_condition(rule.get("onPodConditions"), pod)
        if why:
            action = rule.get("action", COUNT)
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            return Verdict(action=action, message=f"{why.format(pod=name)} matching {action} rule at index {number}")
    return _COUNT


def _matched_exit_code(requirement: Object | None, pod: Object) -> str:
    if not requirement:
        return ""
    status = pod["status"]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        wanted = requirement.get("containerName")
        terminated = container["state"].get("terminated")
        if terminated is None or terminated["exitCode"] == 0 or (wanted and wanted != container["name"]):
            continue
        code = terminated["exitCode"]
        if (code in requirement["values"]) is (requirement["operator"] == "In"):
            return f"Container {container['name']} for pod {{pod}} failed with exit code {code}"
    return ""


def _matched_condition(patterns: list[Object] | None, pod: Object) -> str:
    for pattern in patterns or ():
        for condition in pod["status"].get("conditions") or ():
            if condition["type"] == pattern["type"] and condition["status"] == pattern.get("status", "True"):
                return f"Pod {{pod}} has condition {condition['type']}"
    return ""
