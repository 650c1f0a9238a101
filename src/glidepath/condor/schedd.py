"""A real schedd as the reader asks it: an address comes in, ads go out. Calls may hang; the child may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glidepath.condor.binding import ClassAd, htcondor2

_TOTALS = ("Jobs", "Idle", "Running", "Held", "Removed", "Completed", "Suspended")


class ScheddQueue:
    def __init__(self, address: str) -> None:
        location = ClassAd()
        location["MyAddress"] = address
        location["CondorVersion"] = ""
        self._schedd = htcondor2.Schedd(location)

    def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
        """One ad per group. A schedd with many groups sends some of them twice; a job is the first of one."""
        seen: set[str] = set()
        found = []
        for ad in self._schedd.query(constraint, list(names), opts=htcondor2.QueryOpts.GroupBy):
            ids = ad.get("JobIds")
            if isinstance(ids, str):
                if ids in seen:
                    continue
                seen.add(ids)
            found.append(ad)
        return found

    def plain(self, constraint: str, names: Sequence[str], *, limit: int = -1) -> list[ClassAd]:
        return list(self._schedd.query(constraint, list(names), limit=limit))

    def totals(self) -> Mapping[str, int]:
        """All users' jobs, whatever else is asked: with a limit of nothing the schedd walks over no job."""
        (summary,) = self._schedd.query("true", [], limit=0, opts=htcondor2.QueryOpts.SummaryOnly)
        found = {name: summary.get(f"Allusers{name}", 0) for name in _TOTALS}
        found["ServerTime"] = summary.get("ServerTime", 0)
        return {name: value if type(value) is int else 0 for name, value in found.items()}

    def job(self, cluster: int, proc: int) -> ClassAd | None:
        found = self._schedd.query(f"ClusterId == {cluster} && ProcId == {proc}", [])
        return found[0] if found else None
