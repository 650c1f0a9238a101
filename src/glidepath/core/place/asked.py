"""From a record and a launch to the set of ranks that a cluster is asked for."""

from __future__ import annotations

from glidepath.core.place.acts import Launch
from glidepath.core.place.rank import RankSet, Seat
from glidepath.core.place.record import Record


def rank_set(record: Record, launch: Launch) -> RankSet:
    """The same record and launch give the same set, so that asking again is harmless."""
    ask, terms = record.job.ask, record.terms
    return RankSet(
        key=launch.key,
        seats=tuple(Seat(place.node, place.devices) for place in launch.places),
        work=record.work,
        size=ask.size,
        owner=record.job.owner,
        project=record.job.project,
        name=record.label,
        gpu_milli=ask.gpu_milli,
        counted=ask.counted,
        runtime=ask.runtime,
        exclusive=ask.exclusive,
        limit_s=record.job.limit_s,
        notice_s=terms.notice_s,
        notice_signal=terms.notice_signal,
        grace_s=terms.grace_s,
        gather_s_max=terms.gather_s_max,
        log_bytes_max=terms.log_bytes_max,
        peers=() if record.job.beside is None else (int(record.job.beside),),
    )
