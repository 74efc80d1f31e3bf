"""Pictures of jobs as ``GET /jobs/:jobid/picture`` answers them, of any width and in any trouble, without a job."""

from __future__ import annotations

from math import sin
from typing import Any

Json = dict[str, Any]
NOW = 1_766_000_000_000
JOB_ID = "5e" * 16
COLUMNS = [
    *("subtask", "attempt", "status", "taskmanager", "host", "start_time", "records_in", "records_out"),
    *("records_in_rate", "records_out_rate", "bytes_in", "bytes_out", "busy", "idle", "back_pressured", "watermark"),
    *("queued_in", "queued_out", "out_pool_usage", "reported"),
]
NAMES = (
    "Source: flights -> Timestamps/Watermarks",
    "Source: weather",
    "by airport: Window(TumblingEventTimeWindows, 1 h)",
    "by aircraft: FollowAircraft -> Map",
    "join: CoProcess",
    "Sink: results",
)
EDGES = ((0, 2, "HASH"), (0, 3, "HASH"), (1, 4, "BROADCAST"), (2, 4, "HASH"), (3, 4, "HASH"), (4, 5, "FORWARD"))

QUIET_CHECKPOINTS = {
    "counts": {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0},
    "config": {"mode": "exactly_once", "interval": 0x7FFF_FFFF_FFFF_FFFF},
    "latest": {"completed": None, "savepoint": None, "failed": None, "restored": None},
    "running": [],
    "history": [],
}


def vertex(place: int, name: str, width: int, *, busy: float = 0.3, held: float = 0.0, rate: float = 12_000.0) -> Json:
    """Return one that runs; its subtasks differ by a fixed pattern."""
    is_source, watermark = name.startswith("Source"), NOW - 2_000 - 300 * place
    rows = []
    for subtask in range(width):
        mine = min(1.0, busy * (0.75 + 0.5 * abs(sin(subtask * 1.7))))
        held_mine = min(1.0 - mine, held * (0.8 + 0.4 * abs(sin(subtask))))
        share = rate / width * (0.8 + 0.4 * abs(sin(subtask * 2.3)))
        count_in, count_out = (None if is_source else int(share * 600)), int(share * 600)
        rows.append(
            [
                *(subtask, 0, "RUNNING", f"worker-{subtask % max(1, width // 4)}", "10.0.0.7", NOW - 600_000),
                *(count_in, count_out, 0.0 if is_source else round(share, 1), round(share, 1)),
                *(0 if is_source else count_out * 40, count_out * 40),
                *(round(mine, 3), round(1 - mine - held_mine, 3), round(held_mine, 3), watermark + subtask % 7 * 40),
                *(int(mine * 8), int(held_mine * 10), round(held_mine, 2), NOW - 300),
            ]
        )
    busiest, most_held = max(rows, key=lambda row: row[12]), max(rows, key=lambda row: row[14])
    mean_busy, mean_held = sum(row[12] for row in rows) / width, sum(row[14] for row in rows) / width
    times = [NOW - 1_000 * back for back in range(119, -1, -1)]
    flow = [rate * (0.9 + 0.1 * sin(step / 9 + place)) for step in range(120)]
    return {
        "id": f"{place:032x}",
        "name": name,
        "parallelism": width,
        "maxParallelism": 4096 if width > 128 else 128,
        "status": "RUNNING",
        "start-time": NOW - 600_000,
        "duration": 600_000,
        "tasks": {"RUNNING": width},
        "operators": [
            {"operator_id": f"{place:030x}{step:02x}", "name": each, "records_in": None, "records_out": int(rate * 600)}
            for step, each in enumerate(name.split(" -> "))
        ],
        "totals": {
            "records_in": 0 if is_source else int(rate * 600),
            "records_out": int(rate * 600),
            "bytes_in": 0 if is_source else int(rate * 24_000),
            "bytes_out": int(rate * 24_000),
            "buffers_in": 900,
            "buffers_out": 900,
            "queued_in": 4,
            "queued_out": 6,
            "busy_ms": int(mean_busy * width * 600_000),
            "idle_ms": int((1 - mean_busy - mean_held) * width * 600_000),
            "back_pressured_ms": int(mean_held * width * 600_000),
        },
        "rates": {
            "records_in": 0.0 if is_source else rate,
            "records_out": rate,
            "bytes_in": 0.0,
            "bytes_out": rate * 40,
        },
        "busy": round(mean_busy, 4),
        "idle": round(1 - mean_busy - mean_held, 4),
        "back_pressured": round(mean_held, 4),
        "busiest": {"subtask": busiest[0], "ratio": busiest[12]},
        "most_held_back": {"subtask": most_held[0], "ratio": most_held[14], "level": "ok"},
        "skew": 0.0 if width == 1 else 6.4 if place % 2 else 22.5,
        "watermark": {
            "lowest": watermark,
            "highest": watermark + 240,
            "subtask": 0,
            "lag": NOW - watermark,
            "known": width,
        },
        "history": {
            "time": times,
            "records_in": [0.0 if is_source else value for value in flow],
            "records_out": flow,
            "busy": [mean_busy * (0.95 + 0.05 * sin(step / 4)) for step in range(120)],
            "back_pressured": [mean_held * (0.9 + 0.1 * sin(step / 6)) for step in range(120)],
            "watermark_lag": [None] * 20 + [NOW - watermark + 400 * sin(step) for step in range(100)],
        },
        "subtasks": {"columns": list(COLUMNS), "rows": rows, "count": width},
    }


def checkpoint(number: int, *, status: str = "COMPLETED", is_savepoint: bool = False) -> Json:
    """Return one of those that were taken every 10 s."""
    begun = NOW - (14 - number) * 10_000 - 4_000
    took = 40 + number * 37 % 50
    return {
        "id": number,
        "status": status,
        "is_savepoint": is_savepoint,
        "trigger_timestamp": begun,
        "latest_ack_timestamp": begun + took,
        "end_to_end_duration": took,
        "state_size": 40_000 + number * 2_500,
        "checkpointed_size": 12_000,
        "num_subtasks": 12,
        "num_acknowledged_subtasks": 12 if status == "COMPLETED" else 7,
        "checkpoint_type": "SAVEPOINT" if is_savepoint else "CHECKPOINT",
        "alignment": number * 13 % 23,
        "sync": 2,
        "async": 11,
        "start_delay": 3,
        "slowest": "join: CoProcess (2/2)",
        **({"failure_message": "the subtask join: CoProcess (1/2) has failed"} if status == "FAILED" else {}),
        **({"external_path": f"file:///checkpoints/chk-{number}"} if status == "COMPLETED" else {}),
    }


def manager(number: int, *, age_ms: int = 400) -> Json:
    """Return a task manager."""
    return {
        "id": f"worker-{number}",
        "path": f"10.0.0.{7 + number}:41{number:03}",
        "host": f"10.0.0.{7 + number}",
        "dataPort": 41_000 + number,
        "timeSinceLastHeartbeat": NOW - age_ms,
        "heartbeat-age": age_ms,
        "slotsNumber": 1,
        "freeSlots": 0,
        "process_id": 4_100 + number,
        "records_in": 24_000.0,
        "records_out": 36_000.0,
        "credit": 96,
        "tasks": 6,
        "metrics": {
            "resident_bytes": 212 << 20,
            "peak_resident_bytes": 230 << 20,
            "memory_limit_bytes": 1 << 30,
            "cpu_share": 0.62,
            "threads": 11,
            "tasks": 6,
            "managed_memory_total": 128 << 20,
            "managed_memory_used": 32 << 20,
            "totalMemorySegments": 4096,
            "usedMemorySegments": 310,
        },
    }


def picture(width: int = 2, **changed: Any) -> Json:
    """Return a streaming job of six tasks that is well; `changed` replaces what stands at the top."""
    vertices = [
        vertex(0, NAMES[0], width, busy=0.35, rate=48_000.0),
        vertex(1, NAMES[1], 1, busy=0.02, rate=14.0),
        vertex(2, NAMES[2], width, busy=0.45, rate=24_000.0),
        vertex(3, NAMES[3], width, busy=0.6, rate=24_000.0),
        vertex(4, NAMES[4], width, busy=0.4, rate=900.0),
        vertex(5, NAMES[5], width, busy=0.1, rate=900.0),
    ]
    history = [checkpoint(number, is_savepoint=number == 8) for number in range(14, 0, -1)]
    return {
        "version": 1,
        "now": NOW,
        "jid": JOB_ID,
        "name": "a year of flights",
        "state": "RUNNING",
        "since": NOW - 599_000,
        "job-type": "STREAMING",
        "start-time": NOW - 600_000,
        "end-time": -1,
        "duration": 600_000,
        "timestamps": {"CREATED": NOW - 600_000, "RUNNING": NOW - 599_000},
        "restarts": 0,
        "failure": None,
        "savepoint": None,
        "can-command": True,
        "tasks": {"RUNNING": sum(each["parallelism"] for each in vertices)},
        "subtask-count": sum(each["parallelism"] for each in vertices),
        "vertices": vertices,
        "edges": [
            {"source": f"{one:032x}", "target": f"{other:032x}", "ship_strategy": how, "exchange": "pipelined_bounded"}
            for one, other, how in EDGES
        ],
        "exceptions": {
            "root-exception": None,
            "timestamp": None,
            "exceptionHistory": {"entries": [], "truncated": False},
        },
        "checkpoints": {
            "counts": {"restored": 0, "total": 14, "in_progress": 0, "completed": 14, "failed": 0},
            "config": {"mode": "exactly_once", "interval": 10_000, "timeout": 600_000},
            "latest": {"completed": history[0], "savepoint": history[6], "failed": None, "restored": None},
            "running": [],
            "history": history,
        },
        "taskmanagers": [manager(0), manager(1)],
        "lost-taskmanagers": [],
        "accumulators": [],
        **changed,
    }


def many_tasks(count: int, width: int = 2) -> Json:
    """Return a job of so many tasks, one behind the other."""
    names = [f"{'Source: ' if place < 4 else ''}stage {place}: Map -> Filter" for place in range(count)]
    vertices = [
        vertex(place, name, width, busy=0.1 + 0.008 * (place * 37 % 100), rate=1_000.0 + place)
        for place, name in enumerate(names)
    ]
    pairs = [(place // 4 * 4 - 4 + (place * 7) % 4, place) for place in range(4, count)]
    edges = [
        {"source": f"{one:032x}", "target": f"{other:032x}", "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
        for one, other in pairs
    ]
    whole = count * width
    return picture(vertices=vertices, edges=edges, tasks={"RUNNING": whole}, **{"subtask-count": whole})


def held_back(width: int = 2) -> Json:
    """Return the same job, in which the join is too slow for those before it."""
    made = picture(width)
    slow = vertex(4, NAMES[4], width, busy=0.97, rate=220.0)
    slow["busiest"] = {"subtask": min(1, width - 1), "ratio": 1.0}
    for place, busy, held in ((0, 0.08, 0.86), (2, 0.1, 0.82), (3, 0.12, 0.84)):
        made["vertices"][place] = vertex(place, NAMES[place], width, busy=busy, held=held, rate=1_100.0)
        made["vertices"][place]["most_held_back"]["level"] = "high"
    made["vertices"][4] = slow
    return made


TRACE = """Traceback (most recent call last):
  File "/home/ada/flights.py", line 71, in process_element
    yield self.parse(value)
  File "/home/ada/flights.py", line 88, in parse
    return int(text)
ValueError: invalid literal for int() with base 10: '12:7x'
  in operator 'FollowAircraft', subtask 1 of 2, at record ('UA', '12:7x')"""


def failure(when: int, *, name: str = "builtins.ValueError", text: str = TRACE) -> Json:
    """Return an entry of the history of failures."""
    return {
        "exceptionName": name,
        "message": "invalid literal for int() with base 10: '12:7x'" if text is TRACE else text,
        "stacktrace": text,
        "timestamp": when,
        "failureLabels": {},
        "taskName": "by aircraft: FollowAircraft -> Map (2/2)",
        "endpoint": "10.0.0.8:41001",
        "taskManagerId": "worker-1",
        "concurrentExceptions": [],
        "restarted": {"count": 11, "tasks": [f"{name.split(' -> ')[0]} (1/2)" for name in NAMES]},
    }


def without_checkpoints() -> Json:
    """Return the same job, whose checkpoints have failed for five and a half minutes."""
    made = picture()
    good = made["checkpoints"]["history"][0]
    good["trigger_timestamp"] = NOW - 332_000
    failed = [
        {**checkpoint(14 + number, status="FAILED"), "trigger_timestamp": NOW - 20_000 + 2_000 * number}
        for number in range(10, 0, -1)
    ]
    for each in failed:
        each["failure_message"] = "Checkpoint expired before completing: sink: results (1/2) did not answer in 2 s"
    made["checkpoints"]["config"]["interval"] = 2_000
    made["checkpoints"]["latest"].update(failed=failed[0], completed=good, savepoint=None)
    made["checkpoints"]["counts"].update(total=201, failed=187)
    made["checkpoints"]["history"] = [*failed, good]
    return made


def restarting() -> Json:
    """Return the same job a moment after a function of it has failed: its tasks wait to begin again."""
    made = picture(state="RESTARTING", since=NOW - 4_000, restarts=3, tasks={"CANCELED": 10, "FAILED": 1})
    made["exceptions"] = {
        "root-exception": TRACE,
        "timestamp": NOW - 4_000,
        "exceptionHistory": {"entries": [failure(NOW - 4_000), failure(NOW - 65_000)], "truncated": False},
    }
    for each in made["vertices"]:
        each.update(status="CANCELED", busiest=None, most_held_back=None, busy=0.0, back_pressured=0.0)
        each["rates"] = dict.fromkeys(each["rates"], 0.0)
        for row in each["subtasks"]["rows"]:
            row[2], row[8], row[9], row[12], row[13], row[14] = "CANCELED", 0.0, 0.0, 0.0, 0.0, 0.0
    made["vertices"][3]["status"] = made["vertices"][3]["subtasks"]["rows"][1][2] = "FAILED"
    return made


def ended(state: str, **more: Any) -> Json:
    """Return the same job after its end."""
    made = restarting() if state == "FAILED" else picture()
    for each in made["vertices"] if state != "FAILED" else ():
        each.update(status=state, busiest=None, most_held_back=None, busy=0.0, rates=dict.fromkeys(each["rates"], 0.0))
    return made | {"state": state, "end-time": NOW, "can-command": False, **more}


def after_a_loss(width: int = 2) -> Json:
    """Return the same job after a worker was killed: it goes on."""
    made = picture(width, restarts=1)
    lost = "task manager 'worker-1' was lost: its process was ended by SIGKILL"
    entries = [failure(NOW - 31_000, name="flinkbuf.errors.TaskManagerLostError", text=lost), failure(NOW - 300_000)]
    made["exceptions"] = {
        "root-exception": lost,
        "timestamp": NOW - 31_000,
        "exceptionHistory": {"entries": entries, "truncated": False},
    }
    made["lost-taskmanagers"] = [
        {"id": "worker-1", "path": "10.0.0.8:41001", "lost-time": NOW - 31_000, "process_id": 4101}
    ]
    made["taskmanagers"] = [manager(0), manager(2)]
    failed = checkpoint(13, status="FAILED")
    made["checkpoints"]["history"][1] = failed
    made["checkpoints"]["latest"]["failed"] = failed
    made["checkpoints"]["counts"].update(completed=13, failed=1, restored=1)
    return made
