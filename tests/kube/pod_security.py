"""The Pod Security Standards as published, as far as a pod can break them: a pod comes in, sentences go out.

Written from the rules and not from our own pods, so that the two can disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

BASELINE_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
SAFE_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    }
)
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
RESTRICTED_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
        *("persistentVolumeClaim", "projected", "secret"),
    }
)
PROFILES = (None, "RuntimeDefault", "Localhost")
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe")


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [each for kind in kinds for each in spec.get(kind, [])]


def _contexts(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [spec.get("securityContext", {}), *(each.get("securityContext", {}) for each in _containers(spec))]


def baseline(pod: dict[str, Any]) -> Iterator[str]:
    spec = pod["spec"]
    contexts = _contexts(spec)
    if any(context.get("windowsOptions", {}).get("hostProcess") for context in contexts):
        yield "HostProcess"
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for context in contexts:
        if context.get("privileged"):
            yield "privileged"
        if set(context.get("capabilities", {}).get("add", ())) - BASELINE_CAPABILITIES:
            yield "capabilities"
        if context.get("appArmorProfile", {}).get("type") not in PROFILES:
            yield "AppArmor"
        selinux = context.get("seLinuxOptions", {})
        if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
            yield "SELinux"
        if context.get("procMount", "Default") != "Default":
            yield "/proc"
        if context.get("seccompProfile", {}).get("type") not in PROFILES:
            yield "seccomp"
        if {row["name"] for row in context.get("sysctls", ())} - SAFE_SYSCTLS:
            yield "sysctls"
    for key, value in pod["metadata"].get("annotations", {}).items():
        safe = value in ("runtime/default", "") or value.startswith("localhost/")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not safe:
            yield "AppArmor"
    if any("hostPath" in volume for volume in spec.get("volumes", ())):
        yield "hostPath"
    yield from _ports(spec)


def _ports(spec: dict[str, Any]) -> Iterator[str]:
    for container in _containers(spec):
        if any(port.get("hostPort") for port in container.get("ports", ())):
            yield "hostPort"
        hooks = [*(container.get(name, {}) for name in HANDLERS), *container.get("lifecycle", {}).values()]
        if any(hook.get(kind, {}).get("host") for hook in hooks for kind in ("httpGet", "tcpSocket")):
            yield "host of a probe"


def restricted(pod: dict[str, Any]) -> Iterator[str]:
    yield from baseline(pod)
    spec = pod["spec"]
    for volume in spec.get("volumes", ()):
        if not set(volume) - {"name"} <= RESTRICTED_VOLUMES:
            yield "volume types"
    above = spec.get("securityContext", {})
    for container in _containers(spec):
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if not context.get("runAsNonRoot", above.get("runAsNonRoot")):
            yield "runAsNonRoot"
        seccomp = context.get("seccompProfile", above.get("seccompProfile", {}))
        if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccomp"
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()):
            yield "capabilities to drop"
        if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield "capabilities to add"
    if any(context.get("runAsUser") == 0 for context in _contexts(spec)):
        yield "runAsUser"
