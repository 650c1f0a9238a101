"""What only a check-up asks, in the child: who answers, with which rights, by which clock, and what is there.

Each question is one small command to a daemon, or one connection. What daemons say of themselves is checked
to be text; whether it is good is for `checkup` to say.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]

ADDRESS_S = 10.0
NO_LINE = "Unable to connect"  # as the binding says it


def probed(asked: Mapping[str, Any]) -> Answer:
    return PROBES[asked["ask"]](asked)


def _binding(asked: Mapping[str, Any]) -> Answer:
    from glidepath.condor.binding import htcondor2

    return {"version": _version(htcondor2.version())}


def _located(asked: Mapping[str, Any]) -> Answer:
    """The collector, and what it says of the pool to somebody who may read."""
    from glidepath.condor.binding import htcondor2

    began = time.monotonic()
    ad = htcondor2.Collector(asked["collector"]).locate(htcondor2.DaemonType.Collector)
    took_s = time.monotonic() - began
    session = htcondor2.ping(ad, "READ")
    return {
        "address": _text(ad.get("MyAddress")),
        "version": _version(ad.get("CondorVersion")),
        "trust_domain": _text(session.get("TrustDomain")),
        "keys": _text(session.get("IssuerKeys")),
        "took_s": took_s,
    }


def _rights(asked: Mapping[str, Any]) -> Answer:
    """Whom the daemon takes us for with each right, or nobody where it does not grant that right."""
    from glidepath.condor.binding import HTCondorException, htcondor2

    found = {}
    for right in asked["rights"]:
        try:
            session = htcondor2.ping(asked["address"], right)
        except HTCondorException as error:
            if NO_LINE in str(error):
                raise
            found[right] = ""  # It has one sentence for every kind of refusal.
            continue
        granted = session.get("AuthorizationSucceeded") is True
        found[right] = _text(session.get("MyRemoteUserName")) if granted else ""
    return {"granted": found}


def _clock(asked: Mapping[str, Any]) -> Answer:
    """How far the schedd's clock is before ours; it tells whole seconds."""
    from glidepath.condor.schedd import ScheddQueue

    began, wall_s = time.monotonic(), time.time()
    server_s = ScheddQueue(asked["address"]).totals()["ServerTime"]
    took_s = time.monotonic() - began
    ahead_s = None if server_s <= 0 else round(server_s - wall_s - took_s / 2)
    return {"ahead_s": ahead_s, "took_s": took_s}


def _reach(asked: Mapping[str, Any]) -> Answer:
    from glidepath.condor.reach import tried

    return {"tried": tried(asked["collector"])}


def _address(asked: Mapping[str, Any]) -> Answer:
    """Whether something is behind an address: by its head, nothing is fetched."""
    question = urllib.request.Request(asked["address"], method="HEAD")
    try:
        with urllib.request.urlopen(question, timeout=ADDRESS_S) as answer:
            return {"trouble": "", "status": answer.status}
    except urllib.error.HTTPError as error:
        return {"trouble": f"answered {error.code}"}
    except (OSError, ValueError) as error:
        return {"trouble": str(getattr(error, "reason", None) or error)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _version(value: object) -> str:
    """`23.9.6` of `$CondorVersion: 23.9.6 2025-07-12 ... $`."""
    words = _text(value).split()
    return words[1] if len(words) > 1 else ""


PROBES: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
    "binding": _binding,
    "located": _located,
    "rights": _rights,
    "clock": _clock,
    "reach": _reach,
    "address": _address,
}
