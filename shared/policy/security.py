"""What a pod may not do to its node and its neighbours.

The eight switches are GCO's; what has no switch follows the Baseline profile of the Pod Security Standards
(https://kubernetes.io/docs/concepts/security/pod-security-standards/), plus what would go round the scheduler or the fleet's counting.
"""

from __future__ import annotations

from typing import Final

from shared.policy.fields import Field
from shared.policy.resources import containers
from shared.policy.settings import Policy, Security, setting

_SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def check_pod_security(template: Field, policy: Policy) -> None:
    """Refuse what a pod template must not ask for."""
    pod, security = template["spec"], policy.security
    for name, blocked in (
        ("hostNetwork", security.block_host_network),
        ("hostPID", security.block_host_pid),
        ("hostIPC", security.block_host_ipc),
    ):
        if blocked and pod[name].value is True:
            pod[name].refuse(f"must not be true: {name} is not permitted")
    for volume in pod["volumes"].elements():
        if security.block_host_path and volume["hostPath"].given:
            volume["hostPath"].refuse("must be left out: hostPath volumes are not permitted")
    for name, value in template.within("metadata", "annotations").items():
        if name.startswith(_APPARMOR_ANNOTATION) and value.value == "unconfined":
            value.refuse("must not be unconfined: AppArmor stays on")
    _check_pod_context(pod["securityContext"], security)
    for container in containers(pod):
        _check_container(container, security)
    _check_ways_round(pod, policy)


def _check_pod_context(context: Field, security: Security) -> None:
    _check_context(context, security)
    for sysctl in context["sysctls"].elements():
        if sysctl["name"].text not in _SAFE_SYSCTLS:
            sysctl["name"].refuse(f"must be one of the sysctls that stay inside the pod: {', '.join(sorted(_SAFE_SYSCTLS))}")


def _check_container(container: Field, security: Security) -> None:
    context = container["securityContext"]
    _check_context(context, security)
    if security.block_privileged and context["privileged"].value is True:
        context["privileged"].refuse("must not be true: privileged containers are not permitted")
    if security.block_privilege_escalation and context["allowPrivilegeEscalation"].value is True:
        context["allowPrivilegeEscalation"].refuse("must not be true: allowPrivilegeEscalation is not permitted")
    added = context["capabilities"]["add"]
    if security.block_added_capabilities and added.value not in (None, []):
        added.refuse("must be empty: added capabilities are not permitted")
    if context["procMount"].value not in (None, "", "Default"):
        context["procMount"].refuse("must be Default")
    for port in container["ports"].elements():
        if port["hostPort"].value not in (None, 0):
            port["hostPort"].refuse("must be left out: ports of the node are not permitted")
    handlers = [container[probe] for probe in _PROBES]
    handlers += [container["lifecycle"][moment] for moment in ("postStart", "preStop")]
    for handler in handlers:
        for way in ("httpGet", "tcpSocket"):
            if handler[way]["host"].value not in (None, ""):
                handler[way]["host"].refuse("must be left out: the node would call that host, not the pod")


def _check_context(context: Field, security: Security) -> None:
    """Check what a pod's and a container's security context have in common."""
    if security.block_run_as_root and context["runAsUser"].value == 0 and context["runAsUser"].integer is not None:
        context["runAsUser"].refuse("must not be 0: running as root is not permitted")
    for profile in (context["seccompProfile"]["type"], context["appArmorProfile"]["type"]):
        if profile.value == "Unconfined":
            profile.refuse("must be RuntimeDefault or Localhost: unconfined profiles are not permitted")
    if context["windowsOptions"]["hostProcess"].value is True:
        context["windowsOptions"]["hostProcess"].refuse("must not be true: host processes are not permitted")
    selinux = context["seLinuxOptions"]
    if selinux["type"].text not in _SELINUX_TYPES:
        selinux["type"].refuse(f"must be one of {', '.join(sorted(_SELINUX_TYPES - {''}))}, or left out")
    for name in ("user", "role"):
        if selinux[name].value not in (None, ""):
            selinux[name].refuse("must be left out: SELinux users and roles are not permitted")


def _check_ways_round(pod: Field, policy: Policy) -> None:
    if pod["nodeName"].value not in (None, ""):
        pod["nodeName"].refuse("must be left out: it goes round the scheduler; use nodeSelector or affinity")
    if pod["resourceClaims"].value not in (None, []):
        pod["resourceClaims"].refuse("must be left out: devices are asked for in resources.limits, where the caps count them")
    if pod["ephemeralContainers"].value not in (None, []):
        pod["ephemeralContainers"].refuse("must be left out: Kubernetes allows these only in a pod that runs already")
    if pod["priorityClassName"].text.startswith("system-"):
        pod["priorityClassName"].refuse("must not be a system class: it would push system pods aside")
    for name in ("serviceAccountName", "serviceAccount"):
        if pod[name].value not in (None, "", *policy.allowed_service_accounts):
            allowed = ", ".join(policy.allowed_service_accounts)
            pod[name].refuse(f"must be an allowed service account: {allowed}; {setting('allowed_service_accounts')} allows others")
