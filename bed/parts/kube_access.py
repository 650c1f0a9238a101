"""Rights in one namespace: a subject and rules come in, the objects that grant just these go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bed.command import Ended

GROUP = "rbac.authorization.k8s.io"


def bound(
    subject: Mapping[str, str], namespace: str, rules: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The namespace, a role with these rules, and its binding to the subject; the namespace comes first."""
    # The names of people may have letters that names of objects must not have.
    plain = "".join(c if c.isalnum() or c in "-." else "-" for c in subject["name"].lower()).strip("-.")
    name = f"{subject['kind'].lower()}-{plain}"
    there = {"name": name, "namespace": namespace}
    kind = f"{GROUP}/v1"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": kind, "kind": "Role", "metadata": there, "rules": [dict(rule) for rule in rules]},
        {
            "apiVersion": kind,
            "kind": "RoleBinding",
            "metadata": there,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [dict(subject)],
        },
    ]


def service_account_token(kubectl: Callable[..., Ended], name: str, namespace: str, lifetime_s: int) -> str:
    words = ["create", "token", name, "--namespace", namespace, f"--duration={lifetime_s}s"]
    return kubectl(*words).must(f"no token for the service account `{name}`").out.strip()
