"""Pods of pilots that differ only by their names, written once: a specification comes in, bytes go out.

A plan asks for hundreds of such at a time. It knows nothing of what stands in a pod but the two things that
a name is in: itself, and the digest of the intent.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import PilotName
from glidepath.kube.intent import digest
from glidepath.kube.pod import pod_of
from glidepath.kube.settings import PodSettings
from glidepath.kube.shapes import written

KEPT_MAX = 32


class Forms:
    """For one namespace, and for all threads."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        # Nobody outside can have written this anywhere.
        self._name = PilotName(f"form-{secrets.token_hex(16)}")
        self.kept: dict[tuple[PilotSpec, str], tuple[bytes, bytes]] = {}

    def filled(self, spec: PilotSpec, settings: PodSettings, *, community: str = "") -> bytes:
        """The same as `pod_of`, on the wire. The name has to be one that a pod can have, so it fits anywhere.

        There is one `settings` for each offer.
        """
        # Whether there are secrets is seen in a pod, and under which name; what they are is not.
        files = tuple((file, "") for file, _ in spec.secrets)
        asked = replace(spec, name=self._name, secrets=files)
        form = self.kept.get((asked, community))
        if form is None:
            pod = pod_of(asked, settings, community=community, namespace=self._namespace)
            form = written(pod), digest(asked).encode()
            if len(self.kept) >= KEPT_MAX:
                self.kept.clear()
            self.kept[asked, community] = form
        whole, its_digest = form
        filled = whole.replace(self._name.encode(), spec.name.encode())
        return filled.replace(its_digest, digest(spec).encode())
