"""Every reason glidepath can give, as the sentence that people read.

A closed set: `docs/reference/reasons.md` explains each one, and a test fails when a name is missing there.
"""

from __future__ import annotations

from enum import StrEnum


class Because(StrEnum):
    # About demand of one shape.
    ASKED = "pilots are asked for to serve waiting jobs"
    COVERED = "the waiting jobs are covered by pilots that are free or on their way"
    NOTHING_WAITS = "no job of this shape is waiting"
    ENOUGH_PRESSURE = "as many pilots are waiting as the policy wants"
    NO_OFFER_FITS = "no offer fits these jobs"
    NO_OFFER_LASTS = "no offer that fits lives long enough for the stated run time"
    NO_ROOM = "every offer that fits is at a limit or closed"
    OWNER_AT_LIMIT = "the owners of these jobs are at their limit of pilots"
    POOL_AT_LIMIT = "the pool is at its limit of pilots"
    SITES_UNPROVEN = "a limit spans sites, and after a lost memory one of them has not been seen yet"
    HELD_DEMAND = "the source of this demand cannot be seen; its last value is held and asks for nothing"
    POOL_UNSEEN = "the slots of the pool cannot be seen, so nothing is asked for or taken away"
    POOL_PAUSED = "the pool is paused by an operator"

    STOPPING = "glidepath is stopping and asks for nothing more"

    # About a site or an offer.
    SITE_OPEN = "the site is seen and open"
    OPEN = "the offer is open and nothing more is wanted of it"
    ASKED_HERE = "pilots are asked for here"
    AT_LIMIT = "the offer is at its limit"
    OVER_BUDGET = "what is left of a budget pays for no more pilots here in this period"
    SITE_UNSEEN = "the site cannot be seen, so nothing is done there"
    SITE_PARTIAL = "the site's listing is incomplete, so nothing is done there"
    SITE_STALE = "the site's listing is too old, so nothing is done there"
    SITE_SETTLING = "the site is watched for its listing lag before the first pilot is asked for"
    PAUSED = "the site or offer is paused by an operator"
    DRAINED = "the site or offer is drained by an operator"
    IN_WINDOW = "the site is closed for a maintenance window"
    WINDOW_NEAR = "a pilot started now could not do useful work before the maintenance window"
    BREAKER_OPEN = "too many pilots failed here; waiting before the next try"
    BREAKER_PROBE = "too many pilots failed here; one pilot is tried"
    NO_DEMAND = "no waiting job fits this offer"

    # About pilots that are ended or left alone.
    SURPLUS_PENDING = "no waiting job needs this pending pilot any more"
    SURPLUS_IDLE = "the pilot has been free for a while and no waiting job needs it"
    OVERDUE = "the pilot has been pending for too long"
    WINDOW_DRAIN = "the site closes for a maintenance window"
    OFFER_GONE = "the offer or pool of this pilot is no longer configured"
    ENDED = "the pilot has ended; its statistics are recorded and its traces removed"
    NEVER_APPEARED = "the pilot was asked for and never appeared in the site's listing"
    VANISHED = "the pilot left the site's listing without a word"

    # About a job that the scheduler refuses: it could never run.
    ASKS_NOTHING = "the job asks for nothing, or for less than nothing"
    NO_SUCH_PARTITION = "the job names a partition that is not there"
    QUEUE_NOT_SERVED = "the partition does not serve this queue"
    TOO_LARGE = "no node of the partition is as large"
    TOO_MANY_NODES = "the partition has fewer nodes that fit"
    LIMIT_MISSING = "the partition takes no job without a time limit"
    LIMIT_TOO_LONG = "the time limit is longer than the partition allows"
    NEVER_IN_TIME = "the job could not be over by its deadline, or not start by its latest time"
    NEVER_OPEN = "windows leave no time in which the job could run"
    OVER_CAP = "the job alone is more than its user or project may hold"
    BESIDE_CIRCLE = "jobs are beside each other in a circle"
    BESIDE_GONE = "the job that it belongs beside is not there"
    BESIDE_UNLIKE = "jobs on the same nodes must ask for as many nodes of one partition"
    BESIDE_TOO_LARGE = "there could never be room for the job and those that start with it at once"
    BESIDE_REFUSED = "the job that it belongs beside is refused"
    NAMED_TWICE = "a job of this name is there already"

    # About a job that waits or starts.
    STARTS = "there is room for the job and it starts"
    PROMISED = "the job keeps its turn; room is kept for it from the promised start on"
    PROMISE_MOVED = "the world has changed and the promised start had to move"
    PROMISE_KEPT = "the job started by the time that its user was told first"
    PROMISE_BROKEN = "the job started later than its user was told first"
    ROOM_KEPT = "the job is blocked; room is kept for it at the earliest hole"
    NODES_TAKEN = "the nodes that fit are taken or kept for jobs before it"
    NODES_AWAY = "nodes that would fit are cordoned, unsure or lost, and the others do not suffice"
    CAPPED = "its user or project holds as much as it may"
    NOT_YET = "the job is not to start earlier"
    NOT_ITS_TURN = "there is room for the job, and one before it in its line still waits"
    WINDOW_IN_THE_WAY = "nodes are free, and a window closes them before the job would be over"
    BESIDE_WAITS = "the job starts together with others, and there is no room for all of them"
    QUEUE_PAUSED = "the queue or the partition is paused by an operator"
    NO_RIGHT = "the job has no right to run at present"
    TOO_LATE = "the latest start of the job has passed"

    # About a job that runs.
    GOES_ON = "the job runs within its limit"
    LIMIT_REACHED = "the job has run to its time limit"
    LOST_NODE = "the job has lost a node"
    NODE_UNSURE = "a node of the job has not been heard of; nothing is done on doubt"
    NOTICE_GIVEN = "a window is near that the job would run into"
    WINDOW_OPENS = "a window opens that the job would run into"
    WINDOW_CUTS = "a window opens before the job is over"
    WINDOW_CUTS_NOT = "no window opens any more before the job is over"
    STOPPED_FOR = "the job may be stopped, and a project within its guarantee needs the room"

    RIGHT_LOST = "the job has lost its right to run"
    RIGHT_ENDS = "the job is told that its right to run ends"

    # About a placed job and its ranks, by what its cluster lists.
    CLUSTER_UNSEEN = "the cluster cannot be seen, so nothing is started or settled there"
    BEGAN = "all ranks of the job have begun"
    RANKS_OVER = "all ranks of the job are over"
    RANKS_GONE = "the cluster does not have the ranks of the job"
    RANK_LOST = "a rank was lost by no fault of the job"
    RANK_FAILED = "a rank failed, and the others are ended"
    NOT_GATHERED = "the ranks of the job were not all in place in time"
    START_REPEATED = "the cluster has not all that it was asked for; it is asked again under the same key"
    ENDING = "the job has been told to end"
    CANCELLED = "the owner of the job wants it over"
    NODE_DRAINED = "a node of the job is drained, and the job may be started again"
    LIMIT_NEAR = "the time limit of the job is near, and its cluster gives it the notice that it asked for"
    LIMIT_BEHIND = "the cluster keeps another time limit than the job has"
    STRAY = "these ranks belong to no attempt that goes on"
    UNKNOWN_RANKS = "these ranks belong to no job that is known here; they are left alone"

    # About a new time limit for a job that runs.
    EXTENDED = "the job runs on with its new time limit"
    EXTENSION_BREAKS_PROMISE = "with the new time limit a promised start would have to move"
    EXTENSION_INTO_WINDOW = "with the new time limit the job would run into a window that closes its nodes"
    EXTENSION_TOO_LONG = "the new time limit is longer than the partition allows"
    EXTENSION_IN_VAIN = "the new time limit is the one that the job has, or would be over already"
    NOT_RUNNING = "the job does not run"

    # About what the scheduler was told.
    NOT_SOUND = "what was told of this cannot be so; the plan is made without it"
    CLOCK_WENT_BACK = "the clock went back; the plan is made as of the last instant"

    # About the plan as a whole.
    BREACH = "the plan broke an invariant and was not carried out; please report this"
