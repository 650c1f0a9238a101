"""What can be asked of the calendar of windows over HTTP: rows of the table. The desk decides who may."""

from __future__ import annotations

from glidepath.jobs.desk import WindowMove, WindowWish
from glidepath.serve import windowwords as words
from glidepath.serve.operation import Call, Operation, Reply


def _list(call: Call) -> Reply:
    return Reply({"windows": list(call.desk.windows(call.caller, over=call.query.over))})


def _show(call: Call) -> Reply:
    return Reply(call.desk.window(call.caller, call.number("window")))


def _add(call: Call) -> Reply:
    body: words.WindowAsked = call.body
    wish = WindowWish(
        starts=body.starts,
        ends=body.ends,
        lasts_s=body.lasts,
        cluster=body.cluster,
        nodes=body.nodes,
        everywhere=body.all,
        projects=body.projects,
        people=body.people,
        why=body.why,
    )
    made = call.desk.add_window(call.caller, wish, dry=body.dry)
    return Reply(made, 200 if body.dry else 201)


def _move(call: Call) -> Reply:
    body: words.WindowMoved = call.body
    move = WindowMove(body.version, body.starts, body.ends, body.lasts, body.why)
    return Reply(call.desk.move_window(call.caller, call.number("window"), move, dry=body.dry))


def _cancel(call: Call) -> Reply:
    body: words.WindowCancelled = call.body
    done = call.desk.cancel_window(
        call.caller, call.number("window"), body.version, why=body.why, dry=body.dry
    )
    return Reply(done)


WINDOW_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "windows",
        "GET",
        "/windows",
        "The calendar: when nodes of clusters are closed, or kept for somebody",
        _list,
        words.WindowsAnswer,
        query=words.WindowsAsked,
    ),
    Operation(
        "add_window",
        "POST",
        "/windows",
        "Close nodes for a time, or keep them for somebody; for operators",
        _add,
        words.WindowDone,
        body=words.WindowAsked,
        body_needed=True,
        statuses=(201, 200),
    ),
    Operation("window", "GET", "/windows/{window}", "One window", _show, words.WindowItem),
    Operation(
        "move_window",
        "POST",
        "/windows/{window}/move",
        "Give a window other times; for operators",
        _move,
        words.WindowDone,
        body=words.WindowMoved,
        body_needed=True,
    ),
    Operation(
        "cancel_window",
        "POST",
        "/windows/{window}/cancel",
        "Cancel a window; for operators",
        _cancel,
        words.WindowDone,
        body=words.WindowCancelled,
        body_needed=True,
    ),
)
