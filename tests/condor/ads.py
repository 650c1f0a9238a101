"""Job ads, and a queue of them that answers as a schedd does: grouped by text, references added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glidepath.condor.binding import ClassAd, ExprTree
from glidepath.condor.reading import Question
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import OfferKey, Resources, SiteName
from glidepath.terms import OfferTerms

REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) && '
    "(TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer)"
)
RUN_NAMES = ("AllowedExecuteDuration", "MaxWallTimeMins")
BIG = Offer(SiteName("west"), "big", Resources(16000, 65536, 102400, 0))
SMALL = Offer(SiteName("west"), "small", Resources(2000, 4096, 10240, 0))
GPU = Offer(SiteName("east"), "gpu", Resources(8000, 32768, 102400, 2), traits=(("gpu_type", "A100"),))
GPU_TERMS = OfferTerms(attributes=(("GPUs_Capability", "8.0"), ("GPUs_GlobalMemoryMb", "40536")))
OFFERS = (BIG, SMALL, GPU)
TERMS = {OfferKey("east/gpu"): GPU_TERMS}


def job_ad(**attributes: str) -> ClassAd:
    """A job as `condor_submit` makes one; values are ClassAd text, and an empty one takes it away."""
    texts = {
        "ClusterId": "1",
        "ProcId": "0",
        "JobStatus": "1",
        "JobUniverse": "5",
        "Owner": '"ann"',
        "QDate": "1000",
        "EnteredCurrentStatus": "1000",
        "RequestCpus": "1",
        "RequestMemory": "1024",
        "RequestDisk": "1024",
        "Requirements": REQUIREMENTS,
        **attributes,
    }
    return ClassAd("[" + "; ".join(f"{name} = {text}" for name, text in texts.items() if text) + "]")


def question(
    offers: Sequence[Offer] = OFFERS,
    terms: Mapping[OfferKey, OfferTerms] = TERMS,
    *,
    poisoned: tuple[str, ...] = (),
    full_every_s: float = 60.0,
) -> Question:
    return Question(
        offers=tuple(offers),
        terms=terms,
        route="RequestK8SNamespace",
        run_names=RUN_NAMES,
        digest="same",
        full_every_s=full_every_s,
        poisoned=poisoned,
    )


class FakeQueue:
    """Ads in memory. `expands` is whether it adds what expressions look at, as schedds of our day do."""

    def __init__(self, ads: Sequence[ClassAd] = (), *, expands: bool = True) -> None:
        self.ads = list(ads)
        self.expands = expands
        self.asked: list[str] = []
        self.now_s = 5000

    def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
        self.asked.append("grouped")
        groups: dict[str, tuple[ClassAd, list[tuple[int, int]]]] = {}
        for ad in self.ads:
            if ExprTree(constraint).eval(ad) is not True:
                continue
            kept = self._projected(ad, names)
            groups.setdefault(repr(kept), (kept, []))[1].append((ad["ClusterId"], ad["ProcId"]))
        found = []
        for kept, ids in groups.values():
            first, last = min(ids), max(ids)
            kept["JobCount"] = len(ids)
            kept["JobIds"] = f"{first[0]}.{first[1]} ... {last[0]}.{last[1]}"
            if ExprTree(constraint).eval(kept) is True:
                found.append(kept)
        return found

    def plain(self, constraint: str, names: Sequence[str], *, limit: int = -1) -> list[ClassAd]:
        self.asked.append("plain")
        text = constraint.replace("time()", str(self.now_s))
        found = [self._projected(ad, names) for ad in self.ads if ExprTree(text).eval(ad) is True]
        return found if limit < 0 else found[:limit]

    def totals(self) -> Mapping[str, int]:
        self.asked.append("totals")
        names = {
            1: "Idle",
            2: "Running",
            3: "Removed",
            4: "Completed",
            5: "Held",
            6: "Running",
            7: "Suspended",
        }
        found = {"Jobs": len(self.ads), **dict.fromkeys(names.values(), 0), "ServerTime": self.now_s}
        for ad in self.ads:
            found[names[ad["JobStatus"]]] += 1
        return found

    def _projected(self, ad: ClassAd, names: Sequence[str]) -> ClassAd:
        kept = ClassAd()
        waiting = [name.lower() for name in names]
        own = {name.lower(): name for name in ad}
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in own:
                continue
            seen.add(name)
            expression = ad.lookup(own[name])
            kept[own[name]] = expression
            if self.expands:
                waiting += [ref.lower() for ref in ClassAd().externalRefs(expression)]
        return kept
