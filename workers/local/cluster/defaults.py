"""What the API server fills in: the defaults of a Job and its pods, and the small duties of other kinds.

A default that is missing here would show as a difference between this cluster and a real one to whoever compares what
was applied with what is stored.
"""

from __future__ import annotations

import base64
from typing import Any

from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object

_POD: Object = {
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def pod_spec(spec: Object) -> Object:
    """A pod's spec with its defaults."""
    result = {**_POD, **spec}
    result.setdefault("restartPolicy", "Always")
    for group in ("containers", "initContainers"):
        if result.get(group):
            result[group] = [_container(container) for container in result[group]]
    return result


def _container(container: Object) -> Object:
    image = container.get("image", "")
    latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    result = {**_CONTAINER, "imagePullPolicy": "Always" if latest else "IfNotPresent", **container}
    ports = result.get("ports")
    if ports and any("protocol" not in port for port in ports):
        result["ports"] = [{"protocol": "TCP", **port} for port in ports]
    return result


def job_spec(spec: Object) -> Object:
    """A Job's spec with its defaults."""
    result = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, **spec}
    if result.get("completions") is None and result.get("parallelism") is None:
        result["completions"] = 1
    if result.get("parallelism") is None:
        result["parallelism"] = 1
    result.setdefault("podReplacementPolicy", "Failed" if result.get("podFailurePolicy") else "TerminatingOrFailed")
    template = result.get("template") or {}
    metadata = template.get("metadata") or {}
    result["template"] = {"metadata": metadata, "spec": pod_spec(template.get("spec") or {})}
    return result


def with_selector(spec: Object, name: str, uid: str) -> Object:
    """A new Job's spec with its selector, and the labels by which its pods are known."""
    if spec.get("manualSelector"):
        return spec
    template = spec["template"]
    metadata = template["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    return {
        **spec,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }


class Defaults:
    """Completes an object that is about to be created."""

    def __init__(self) -> None:
        self._addresses = 0

    def complete(self, kind: Kind, obj: Object) -> Object:
        """A new object with what the API server adds for its kind; `metadata.uid` must be there."""
        obj = self.refill(kind, {key: value for key, value in obj.items() if key != "status"})
        metadata = obj["metadata"]
        match kind.kind:
            case "Job":
                return {**obj, "spec": with_selector(obj["spec"], metadata["name"], metadata["uid"]), "status": {}}
            case "Pod":
                return {**obj, "status": {"phase": "Pending", "qosClass": "BestEffort"}}
            case "Namespace":
                labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
                obj = {**obj, "metadata": {**metadata, "labels": labels}}
                return {**obj, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            case "Service":
                return {**obj, "spec": self._with_address(obj["spec"]), "status": {"loadBalancer": {}}}
            case "PersistentVolumeClaim":
                # Claims bind at once: storage is not what this simulation is about.
                spec = obj["spec"]
                capacity = (spec.get("resources") or {}).get("requests") or {}
                status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}
                return {**obj, "spec": {"volumeName": f"pvc-{metadata['uid']}", **spec}, "status": status}
            case _:
                return {**obj, "status": {}} if "status" in kind.subresources else obj

    def refill(self, kind: Kind, obj: Object) -> Object:
        """An object, new or changed, with the defaults that don't depend on when it was made."""
        spec = obj.get("spec") or {}
        match kind.kind:
            case "Job":
                return {**obj, "spec": job_spec(spec)}
            case "Pod":
                return {**obj, "spec": pod_spec(spec)}
            case "Service":
                return {**obj, "spec": _service_spec(spec)}
            case "PersistentVolumeClaim":
                return {**obj, "spec": {"volumeMode": "Filesystem", "storageClassName": "gp3", **spec}}
            case "Deployment" | "StatefulSet" | "ReplicaSet":
                return {**obj, "spec": {"replicas": 1, **spec}}
            case "Secret":
                return _secret(obj)
            case _:
                return obj

    def _with_address(self, spec: Object) -> Object:
        if spec["type"] == "ExternalName" or spec.get("clusterIP"):
            return spec
        self._addresses += 1
        return {**spec, "clusterIP": f"10.100.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"}


def _service_spec(spec: Object) -> Object:
    result = {"type": "ClusterIP", "sessionAffinity": "None", **spec}
    if result.get("ports"):
        result["ports"] = [_service_port(port) for port in result["ports"]]
    return result


def _service_port(port: Object) -> Object:
    return {"protocol": "TCP", "targetPort": port.get("port"), **port}


def _secret(obj: Object) -> Object:
    result: dict[str, Any] = {"type": "Opaque", **obj}
    plain = result.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        result["data"] = {**(result.get("data") or {}), **encoded}
    return result
