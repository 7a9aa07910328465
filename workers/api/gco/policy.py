"""The policy group of the GCO door: what is enforced, read from the running validator and from the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from fastapi import APIRouter

from shared.clusters.enforcement import Enforcement, read_enforcement
from shared.clusters.quantities import format_bytes, format_quantity
from shared.errors import NotHereError, UnavailableError
from shared.policy import Policy
from workers.about import SERVICE
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers
from workers.api.gco.policy_schemas import (
    ConfiguredCaps,
    Enforced,
    JobValidationPolicy,
    LimitRangeItem,
    ManifestCaps,
    PolicyAnswer,
    SecurityPolicy,
    Unavailable,
)
from workers.api.gco.translation import env

router = APIRouter(prefix="/api/v1/policy", tags=["Health"], route_class=StrictRoute)


@router.get("", response_model_exclude_unset=True, responses=answers(401, 403, 422, 429, 503))
async def get_job_validation_policy(core: CoreOf, caller: Reader) -> PolicyAnswer:
    """The policy of the validator that judges every manifest here, and the quotas and limit ranges of the caller's namespaces."""
    namespaces = sorted(caller.within(core.policy.allowed_namespaces))
    return PolicyAnswer(
        **env(core),
        service=SERVICE,
        source="deployed-cluster-runtime",
        policy=_policy(core.policy, namespaces),
        cluster_enforcement={name: _enforced(found) for name, found in (await _enforcement(core, namespaces)).items()},
    )


async def _enforcement(core: Core, namespaces: list[str]) -> dict[str, Enforcement]:
    try:
        api = await core.cluster()
    except NotHereError as error:
        return {namespace: Enforcement(reason=str(error)) for namespace in namespaces}
    except UnavailableError:
        return {namespace: Enforcement(reason="the cluster does not answer") for namespace in namespaces}
    return await read_enforcement(api, namespaces)


def _enforced(found: Enforcement) -> Enforced | Unavailable:
    if found.reason is not None:
        return Unavailable(status="unavailable", reason=found.reason)
    return Enforced(
        status="ok",
        resource_quotas=found.quotas,
        resource_quota_usage=found.used,
        limit_ranges={name: [LimitRangeItem.model_validate(one) for one in limits] for name, limits in found.limit_ranges.items()},
    )


def _policy(policy: Policy, namespaces: list[str]) -> JobValidationPolicy:
    """Lists are sorted, so that two answers can be compared."""
    return JobValidationPolicy(
        validation_enabled=True,
        manifest_caps=ManifestCaps(
            max_cpu_millicores=int(policy.max_cpu * 1000),
            max_memory_bytes=int(policy.max_memory),
            max_gpu_count=policy.max_gpus,
            configured=ConfiguredCaps(
                max_cpu_per_manifest=format_quantity(policy.max_cpu),
                max_memory_per_manifest=format_bytes(policy.max_memory),
                max_gpu_per_manifest=policy.max_gpus,
            ),
        ),
        allowed_namespaces=namespaces,
        allowed_kinds=_kinds(policy.manifest_kinds),
        allowed_api_versions={kind: [version] for version, kind in sorted(policy.manifest_kinds, key=lambda pair: pair[1])},
        trusted_registries=sorted(policy.trusted_registries),
        trusted_dockerhub_orgs=sorted(policy.trusted_dockerhub_orgs),
        require_accelerator_toleration=policy.require_accelerator_toleration,
        yaml_max_depth=policy.yaml_max_depth,
        manifest_security_policy=SecurityPolicy(**asdict(policy.security)),
        queue_kinds=_kinds(policy.main_kinds),
        supporting_kinds=_kinds(policy.supporting_kinds),
        gpu_resources=sorted(policy.gpu_resources),
        accelerator_taints=sorted(policy.accelerator_taints),
        allowed_service_accounts=sorted(policy.allowed_service_accounts),
        max_object_bytes=policy.max_object_bytes,
        max_specification_bytes=policy.max_specification_bytes,
    )


def _kinds(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return sorted(kind for _, kind in pairs)
