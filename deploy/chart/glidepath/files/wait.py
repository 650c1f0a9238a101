"""Waits until no pod of the given sites is left: the Job of `helm uninstall`. Pods are drained elsewhere.

Sites and bounds come in as arguments, an exit code goes out: 0 gone, 1 not in time. It changes nothing.
"""

import json
import sys
import time

PAGE = 500
LOOK_S = 5.0


def left(api, path, selector):
    """How many pods there are, or None where the cluster does not say: unseen is not gone."""
    try:
        found = json.loads(api.get(path, {"labelSelector": selector, "limit": PAGE}))
        return len(found["items"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        print(f"the cluster does not say: {error}", flush=True)
        return None


def gone(look, *, quiet_s, limit_s, steady=time.monotonic, sleep=time.sleep):
    """Whether none was seen for `quiet_s` on end within `limit_s`."""
    began, since, told = steady(), None, -1
    while steady() - began <= limit_s:
        count = look()
        now = steady()
        since = (since if since is not None else now) if count == 0 else None
        if since is not None and now - since >= quiet_s:
            return True
        if count is not None and count != told:
            told = count
            print(f"{count} pods are left" if count else "no pod is left; looking on for a while", flush=True)
        sleep(LOOK_S)
    return False


def main(sites, quiet_s, limit_s, access=None):
    from glidepath.kube.access import in_cluster
    from glidepath.kube.api import Api
    from glidepath.kube.intent import SITE

    access = access or in_cluster()
    api = Api(access, changes_per_s=0)
    path, selector = f"/api/v1/namespaces/{access.namespace}/pods", f"{SITE} in ({sites})"
    if gone(lambda: left(api, path, selector), quiet_s=float(quiet_s), limit_s=float(limit_s)):
        print("all pilots have left", flush=True)
        return 0
    print("pilots are left; run `helm uninstall` again later, or with `--no-hooks` to leave them", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
