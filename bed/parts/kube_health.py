"""Whether a server of a cluster answers: its name and address come in, yes or no goes out."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path

ASK_S_MAX = 3.0
# The page by which each tells that it is well; etcd tells only the API server, which tells it on.
PAGES = {
    "etcd": "https://{node}:6443/readyz",
    "apiserver": "https://{node}:6443/readyz",
    "controller-manager": "https://{node}:10257/healthz",
    "scheduler": "https://{node}:10259/healthz",
    "kubelet": "http://{node}:10248/healthz",
    "kwok": "http://{node}:10247/healthz",
}


def answers(node: str, authority: Path, server: str) -> bool:
    address = PAGES[server].format(node=node)
    trust = ssl.create_default_context(cafile=str(authority))
    if server in ("controller-manager", "scheduler"):
        # They make a certificate of their own, which nobody signs; this page tells nothing that is secret.
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    # Without the proxies of the environment: the address is this machine's own.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        with opener.open(address, timeout=ASK_S_MAX) as page:
            return bool(page.status == http.HTTPStatus.OK)
    except (OSError, urllib.error.URLError, http.client.HTTPException):
        return False
