"""The five questions that a user has about a job, answered from what a page draws of it.

Does it run, where is it stuck, how far is event time, is it safe, who is ill: each in a few words, with how good that
is. The page and the terminal show the same ones. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flinkbuf.runtime.picture.plain_words import (
    END_OF_TIME,
    age_text,
    duration_text,
    event_time_text,
    lasting_text,
    percent,
    plural,
    short_name,
    size_text,
)
from flinkbuf.runtime.protocol.messages import Json

Picture = Mapping[str, Any]  # as page_picture.py makes it
GOOD, FAIR, BAD, QUIET = "good", "fair", "bad", "quiet"  # quiet: there is nothing to judge
LOW, HIGH = 0.1, 0.5  # Flink's: above the one a task is held back, above the other badly
RECENT_MS: Final = 120_000  # how long a failure or a loss is news
SILENT_MS: Final = 15_000  # a task manager that was not heard for so long may be ill
MEMORY_FULL: Final = 0.9
FALLING: Final = 0.5  # lag that grows by more than this share of the time: event time falls behind
LATE_MS: Final = 3_600_000  # more than that behind the clock: a stream of another time, which is told by its time
_NEVER_MS: Final = 2**53  # Flink's interval of a job without checkpoints is the largest long
_ENDED: Final = {"FINISHED": GOOD, "FAILED": BAD, "CANCELED": QUIET, "SUSPENDED": QUIET}


def answers_of(picture: Picture) -> list[Json]:
    """Return five answers: each with ``question``, ``level``, ``answer``, ``detail``, and ``vertex``, an id or None."""
    return [_runs(picture), _stuck(picture), _event_time(picture), _safe(picture), _ill(picture)]


def _answer(question: str, level: str, answer: str, detail: str, vertex: Picture | None = None) -> Json:
    return {
        "question": question,
        "level": level,
        "answer": answer,
        "detail": detail,
        "vertex": None if vertex is None else vertex["id"],
    }


def _is_over(picture: Picture) -> bool:
    return picture["state"] in _ENDED


# ---- 1


def _runs(picture: Picture) -> Json:
    question, state, tasks = "Does it run?", picture["state"], picture["tasks"]
    restarts = plural(picture["restarts"], "restart") if picture["restarts"] else "no restart"
    if _is_over(picture):
        after = f"after {lasting_text(picture['duration'])} · {restarts}"
        if picture.get("savepoint"):  # archives of older versions have none
            return _answer(question, GOOD, "Stopped", f"with savepoint {picture['savepoint']} · {after}")
        failure = picture.get("failure") if state == "FAILED" else None
        return _answer(question, _ENDED[state], state.title(), f"{failure} · {after}" if failure else after)
    alive, whole = tasks.get("RUNNING", 0) + tasks.get("FINISHED", 0), picture["subtask-count"]
    detail = f"{alive:,} of {plural(whole, 'subtask')} · {restarts}"
    if state != "RUNNING":
        level = BAD if "FAIL" in state or "RESTART" in state else QUIET
        return _answer(
            question, level, state.title(), f"for {lasting_text(picture['now'] - picture['since'])} · {detail}"
        )
    if alive < whole:
        again = picture["restarts"] > 0
        return _answer(question, BAD if again else QUIET, "Starting again" if again else "Starting", detail)
    answer = f"Running for {lasting_text(picture['duration'])}"
    failed_ms = picture["exceptions"]["timestamp"]
    if failed_ms and picture["now"] - failed_ms < RECENT_MS:
        return _answer(question, FAIR, answer, f"{detail} · failed {age_text(picture['now'] - failed_ms)}")
    return _answer(question, GOOD, answer, detail)


# ---- 2


def _held_back(vertex: Picture) -> float:
    return vertex["most_held_back"]["ratio"] if vertex["most_held_back"] else 0.0


def _busy(vertex: Picture) -> float:
    return vertex["busiest"]["ratio"] if vertex["busiest"] else 0.0


def _culprit(picture: Picture) -> Picture | None:
    """Return the busiest of the tasks that hold others back and are not held back themselves."""
    vertices = {vertex["id"]: vertex for vertex in picture["vertices"]}
    found = [
        vertices[edge["target"]]
        for edge in picture["edges"]
        if _held_back(vertices[edge["source"]]) > LOW >= _held_back(vertices[edge["target"]])
    ]
    return max(found, key=_busy, default=None)


def _stuck(picture: Picture) -> Json:
    question = "Where is it stuck?"
    if _is_over(picture):
        return _answer(question, QUIET, "Nothing runs", "")
    held = [vertex for vertex in picture["vertices"] if _held_back(vertex) > LOW]
    culprit = _culprit(picture)
    if culprit is None:
        busiest = max(picture["vertices"], key=_busy, default=None)
        if busiest is None or not busiest["busiest"]:
            return _answer(question, QUIET, "Nowhere", "nothing runs yet")
        return _answer(
            question, GOOD, "Nowhere", f"busiest: {short_name(busiest['name'])}, {percent(_busy(busiest))}", busiest
        )
    most = max(map(_held_back, held))
    who = f"{percent(_busy(culprit))} busy"
    if culprit["parallelism"] > 1 and culprit["busiest"]:
        who = f"subtask {culprit['busiest']['subtask']} is {who}"
    detail = f"{who} · holds back {plural(len(held), 'task')}, by up to {percent(most)}"
    return _answer(question, BAD if most > HIGH else FAIR, short_name(culprit["name"]), detail, culprit)


# ---- 3


def _lag_slope(history: Picture, now_ms: int) -> float:
    """Return how much the lag grew, as a share of the time in which it did; 0 while too little is known."""
    points = [
        (time_ms, lag_ms)
        for time_ms, lag_ms in zip(history["time"], history["watermark_lag"], strict=True)
        if lag_ms is not None and now_ms - time_ms <= 60_000
    ]
    if len(points) < 10 or points[-1][0] == points[0][0]:
        return 0.0
    slope: float = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
    return slope


def _event_time(picture: Picture) -> Json:
    question = "How far is event time?"
    known = [vertex for vertex in picture["vertices"] if vertex["watermark"]["lowest"] is not None]
    if not known:
        return _answer(question, QUIET, "No watermarks", "the job counts no event time, or has seen none yet")
    last = min(reversed(known), key=lambda vertex: vertex["watermark"]["lowest"])
    watermark, name = last["watermark"], short_name(last["name"])
    lowest, lag_ms = watermark["lowest"], watermark["lag"]
    if lowest >= END_OF_TIME:
        return _answer(question, GOOD, "At its end", "all input was seen", last)
    if lowest <= -END_OF_TIME:
        return _answer(question, QUIET, "Not begun", f"waits in {name}", last)
    silent = last["parallelism"] - watermark["known"]
    who = f"last: {name}" + (f", subtask {watermark['subtask']}" if last["parallelism"] > 1 else "")
    if silent:
        who = f"{plural(silent, 'subtask')} of {name} without"
    is_falling = not _is_over(picture) and _lag_slope(last["history"], picture["now"]) > FALLING
    is_near = lag_ms is not None and lag_ms < LATE_MS
    answer = f"{duration_text(lag_ms)} behind" if is_near else event_time_text(lowest)
    first = event_time_text(lowest) if is_near else f"UTC, {duration_text(lag_ms or 0)} ago"
    # Event time years behind is made up, or read from an archive: its lag grows only where it stands still.
    if is_falling and is_near:
        first = "falls behind"
    return _answer(question, FAIR if (is_falling and is_near) or silent else GOOD, answer, f"{first} · {who}", last)


# ---- 4


def _safe(picture: Picture) -> Json:
    question, checkpoints = "Is it safe?", picture["checkpoints"]
    latest, interval_ms = checkpoints["latest"], checkpoints["config"].get("interval") or _NEVER_MS
    is_asked = interval_ms < _NEVER_MS
    found = [latest[name] for name in ("completed", "savepoint") if latest[name]]
    best = max(found, key=lambda each: each["trigger_timestamp"], default=None)
    failed = latest["failed"]
    if best is None and not is_asked and not checkpoints["counts"]["total"]:
        is_batch = picture["job-type"] == "BATCH"
        detail = "a batch job repeats what was lost" if is_batch else "after a failure it would begin anew"
        return _answer(question, QUIET, "No checkpoints", detail)
    failure = None
    if failed and (best is None or failed["trigger_timestamp"] > best["trigger_timestamp"]):
        message = (failed.get("failure_message") or "no reason was given").split("\n")[0]
        failure = f"checkpoint {failed['id']} failed: {message}"
    running = checkpoints["running"][:1]
    progress = "".join(f", now {each['num_acknowledged_subtasks']:,} of {each['num_subtasks']:,}" for each in running)
    if best is None:
        return _answer(question, BAD if failure else QUIET, "Not yet", failure or f"the first one comes{progress}")
    what = "savepoint" if best["is_savepoint"] else "checkpoint"
    took_ms = best["end_to_end_duration"]
    facts = f"{what} {best['id']} · {duration_text(took_ms)} · {size_text(best['state_size'])}"
    if _is_over(picture):
        return _answer(question, QUIET, f"{what.title()} {best['id']}", facts)
    since_ms = picture["now"] - best["trigger_timestamp"]
    # A slow checkpoint ends as long after the one before as it takes. Later than that: none succeeded in 3 intervals.
    is_old = is_asked and since_ms - took_ms > took_ms + 3 * interval_ms + 10_000
    level = BAD if is_old else FAIR if failure else GOOD
    return _answer(question, level, f"Saved {age_text(since_ms)}", failure or facts + progress)


# ---- 5


def illness_of(manager: Picture) -> str:
    """Return what is wrong with a task manager, in a few words; empty: nothing."""
    if manager["heartbeat-age"] > SILENT_MS:
        return f"not heard for {lasting_text(manager['heartbeat-age'])}"
    used, limit = manager["metrics"].get("resident_bytes"), manager["metrics"].get("memory_limit_bytes")
    return f"memory {percent(used / limit)} full" if used and limit and used / limit > MEMORY_FULL else ""


def _ill(picture: Picture) -> Json:
    question, managers = "Who is ill?", picture["taskmanagers"]
    here = plural(len(managers), "task manager")
    if _is_over(picture):
        return _answer(question, QUIET, "Nobody", f"{here} at its end")
    lost = [each for each in picture["lost-taskmanagers"] if picture["now"] - each["lost-time"] < RECENT_MS]
    if lost:
        answer = f"{lost[0]['id']} was lost" if len(lost) == 1 else f"{len(lost)} were lost"
        detail = f"{age_text(picture['now'] - lost[0]['lost-time'])} · {here} left"
        return _answer(question, FAIR if managers else BAD, answer, detail)
    suffering = [(each["id"], words) for each in managers if (words := illness_of(each))]
    if suffering:
        more = f" · and {len(suffering) - 1:,} more" if len(suffering) > 1 else ""
        return _answer(question, FAIR, suffering[0][0], suffering[0][1] + more)
    if not managers:
        return _answer(question, QUIET, "Nobody is there", "task managers come when the job begins")
    oldest_ms = max(each["heartbeat-age"] for each in managers)
    return _answer(question, GOOD, "Nobody", f"{here}, heard {age_text(oldest_ms)}")
