"""The structure of a TrainJob (Kubeflow Trainer 2, `trainer.kubeflow.org/v1alpha1`), as data for the compiler of the other kinds' schemas.

Kubernetes' own documents don't have it, since it is defined on the cluster. Source: `TrainJobSpec` in kubeflow/trainer,
pkg/apis/trainer/v1alpha1/trainjob_types.go, up to release 2.2: what an older or newer release doesn't know, its own API server tells.
`podTemplateOverrides` (to 2.1) and `runtimePatches` (from 2.2) are the same idea, so what they lay over a pod has one definition here.
What isn't written here can't be said, above all no further container, no image and no resources in a patch.
"""

from __future__ import annotations

from typing import Any, Final

_PREFIX: Final = "org.kubeflow.trainer.v1alpha1."
_CORE: Final = "io.k8s.api.core.v1."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."

_STRING: Final = {"type": ["string", "null"]}
_BOOLEAN: Final = {"type": ["boolean", "null"]}
_INT32: Final = {"type": ["integer", "null"], "format": "int32"}
_INT64: Final = {"type": ["integer", "null"], "format": "int64"}
_STRINGS: Final = {"type": ["object", "null"], "additionalProperties": _STRING}


def _to(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _of(name: str) -> dict[str, Any]:
    return _to(_PREFIX + name)


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": ["array", "null"], "items": items}


def _object(required: tuple[str, ...] = (), /, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": ["object", "null"], "properties": properties, "required": list(required), "additionalProperties": False}


_ENV: Final = _list(_to(f"{_CORE}EnvVar"))
_INITIALIZER: Final = _object(storageUri=_STRING, env=_ENV, secretRef=_to(f"{_CORE}LocalObjectReference"))

TRAIN_JOB: Final = _object(
    ("spec",),
    apiVersion=_STRING,
    kind=_STRING,
    metadata=_to(f"{_META}ObjectMeta"),
    spec=_of("TrainJobSpec"),
    status={},
)

_DEFINITIONS: Final = {
    "TrainJobSpec": _object(
        ("runtimeRef",),
        runtimeRef=_of("RuntimeRef"),
        initializer=_of("Initializer"),
        trainer=_of("Trainer"),
        labels=_STRINGS,
        annotations=_STRINGS,
        podTemplateOverrides=_list(_of("PodTemplateOverride")),
        runtimePatches=_list(_of("RuntimePatch")),
        suspend=_BOOLEAN,
        activeDeadlineSeconds=_INT64,
        managedBy=_STRING,
    ),
    "RuntimeRef": _object(("name",), name=_STRING, apiGroup=_STRING, kind=_STRING),
    "Initializer": _object(dataset=_of("DatasetInitializer"), model=_of("ModelInitializer")),
    "DatasetInitializer": _INITIALIZER,
    "ModelInitializer": _INITIALIZER,
    "Trainer": _object(
        image=_STRING,
        command=_list(_STRING),
        args=_list(_STRING),
        env=_ENV,
        numNodes=_INT32,
        resourcesPerNode=_to(f"{_CORE}ResourceRequirements"),
        numProcPerNode=_to("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
    ),
    "PodTemplateOverride": _object(
        ("targetJobs",), targetJobs=_list(_of("TargetJob")), metadata=_of("PatchMetadata"), spec=_of("PodSpecPatch")
    ),
    "TargetJob": _object(("name",), name=_STRING),
    "RuntimePatch": _object(("manager",), manager=_STRING, time=_to(f"{_META}Time"), trainingRuntimeSpec=_of("TrainingRuntimeSpecPatch")),
    "TrainingRuntimeSpecPatch": _object(template=_of("JobSetTemplatePatch")),
    "JobSetTemplatePatch": _object(metadata=_of("PatchMetadata"), spec=_of("JobSetSpecPatch")),
    "JobSetSpecPatch": _object(replicatedJobs=_list(_of("ReplicatedJobPatch"))),
    "ReplicatedJobPatch": _object(("name",), name=_STRING, template=_of("JobTemplatePatch")),
    "JobTemplatePatch": _object(metadata=_of("PatchMetadata"), spec=_of("JobSpecPatch")),
    "JobSpecPatch": _object(template=_of("PodTemplatePatch")),
    "PodTemplatePatch": _object(metadata=_of("PatchMetadata"), spec=_of("PodSpecPatch")),
    "PatchMetadata": _object(labels=_STRINGS, annotations=_STRINGS),
    "PodSpecPatch": _object(
        serviceAccountName=_STRING,
        volumes=_list(_to(f"{_CORE}Volume")),
        initContainers=_list(_of("ContainerPatch")),
        containers=_list(_of("ContainerPatch")),
        imagePullSecrets=_list(_to(f"{_CORE}LocalObjectReference")),
        securityContext=_to(f"{_CORE}PodSecurityContext"),
        nodeSelector=_STRINGS,
        affinity=_to(f"{_CORE}Affinity"),
        tolerations=_list(_to(f"{_CORE}Toleration")),
        schedulingGates=_list(_to(f"{_CORE}PodSchedulingGate")),
    ),
    "ContainerPatch": _object(
        ("name",),
        name=_STRING,
        env=_ENV,
        volumeMounts=_list(_to(f"{_CORE}VolumeMount")),
        securityContext=_to(f"{_CORE}SecurityContext"),
    ),
}
DEFINITIONS: Final = {_PREFIX + name: schema for name, schema in _DEFINITIONS.items()}
"""By the names that the schemas refer to each other by."""
