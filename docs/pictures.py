"""Draws the pictures of how-it-works.md: `python docs/pictures.py [FOLDER]`, into docs/assets by default.

Boxes bring their own ground, and lines and labels are of a middle grey, so that they read on a light page and on a dark
one. No fonts are loaded and nothing moves.
"""

import sys
from html import escape
from pathlib import Path

INK, LINE = "#1f2933", "#7d8894"
MEMORY, TASK, IO, SPARK, PLAIN = "#f7d9a8", "#cfe3f7", "#d5ecd0", "#f5d0cd", "#e4e7eb"


class Picture:
    """A canvas with boxes, arrows and words."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>',
        ]

    def box(self, x: int, y: int, width: int, height: int, fill: str, *lines: str) -> None:
        """Draw a box; its first line is a name, the others say what it is."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{LINE}"/>'
        )
        top = y + height / 2 - 8.5 * (len(lines) - 1) + 4.5
        for number, line in enumerate(lines):
            weight = ' font-weight="600"' if number == 0 else ' font-size="11.5"'
            self.parts.append(
                f'<text x="{x + width / 2:g}" y="{top + 17 * number:g}" text-anchor="middle" fill="{INK}"{weight}>'
                f"{escape(line)}</text>"
            )

    def frame(self, x: int, y: int, width: int, height: int, label: str) -> None:
        """Draw a dashed frame around things that belong together."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="none" stroke="{LINE}" '
            f'stroke-dasharray="5 4"/>'
        )
        self.words(x + 10, y + 18, label)

    def words(self, x: int, y: int, text: str, anchor: str = "start") -> None:
        """Write a label."""
        self.parts.append(f'<text x="{x}" y="{y}" fill="{LINE}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int], label: str = "", is_dashed: bool = False) -> None:
        """Draw an arrow through points, with its label over the middle of the first part."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dashes = ' stroke-dasharray="4 3"' if is_dashed else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.6" marker-end="url(#tip)"{dashes}/>'
        )
        if label:
            (x0, y0), (x1, y1) = points[:2]
            self.words((x0 + x1) // 2, (y0 + y1) // 2 - 6, label, "middle")

    def text(self) -> str:
        """Return the file's content."""
        return "\n".join([*self.parts, "</svg>", ""])


def data() -> Picture:
    """Draw the way of a record from one operator to another."""
    picture = Picture(900, 330, "The way of the data: writer, partition, connection, gate, reader")
    picture.frame(10, 10, 425, 310, "the process that writes")
    picture.frame(465, 10, 425, 310, "the process that reads")
    picture.box(30, 45, 130, 50, TASK, "your function", "makes records")
    picture.box(30, 140, 130, 60, TASK, "RecordWriter", "type, partitioner")
    picture.box(210, 105, 205, 130, PLAIN, "")
    picture.words(220, 124, "ResultPartition")
    for number in range(3):
        picture.box(222, 134 + 32 * number, 180, 26, MEMORY, f"subpartition {number}: buffers")
    picture.box(255, 262, 160, 44, IO, "server", "I/O thread, C")
    picture.box(485, 262, 160, 44, IO, "client", "I/O thread, C")
    picture.box(485, 105, 190, 130, PLAIN, "")
    picture.words(495, 124, "InputGate")
    for number in range(3):
        picture.box(497, 134 + 32 * number, 166, 26, MEMORY, f"channel {number}: buffers")
    picture.box(735, 140, 135, 60, TASK, "RecordReader", "type")
    picture.box(735, 45, 135, 50, TASK, "your function", "takes records")
    picture.arrow((95, 95), (95, 138))
    picture.arrow((160, 170), (208, 170))
    picture.arrow((335, 235), (335, 260))
    picture.arrow((415, 284), (483, 284))
    picture.words(449, 303, "TCP", "middle")
    picture.arrow((565, 262), (565, 237))
    picture.arrow((675, 170), (733, 170))
    picture.arrow((802, 140), (802, 97))
    picture.arrow((415, 150), (483, 150), is_dashed=True)
    picture.words(449, 95, "same process:", "middle")
    picture.words(449, 111, "no copy", "middle")
    return picture


def credit() -> Picture:
    """Draw how credit bounds what is under way."""
    picture = Picture(900, 400, "Credit: a writer sends only what the reader has room for")
    picture.box(60, 15, 220, 44, IO, "server of the writer", "sends while it has credit")
    picture.box(620, 15, 220, 44, IO, "client of the reader", "grants what is free")
    for x in (170, 730):
        picture.arrow((x, 59), (x, 385), is_dashed=True)
    steps = [
        (730, 170, "PARTITION_REQUEST subpartition 0, credit 2"),
        (170, 730, "BUFFER_RESPONSE number 0, backlog 3     (credit left: 1)"),
        (170, 730, "BUFFER_RESPONSE number 1, backlog 2     (credit left: 0)"),
        (730, 170, "ADD_CREDIT 2     (a floating buffer, and one that was read)"),
        (170, 730, "BUFFER_RESPONSE number 2, backlog 1     (credit left: 1)"),
    ]
    y = 95
    for start, end, label in steps:
        step = 5 if start < end else -5
        picture.arrow((start + step, y), (end - step, y), label=label)
        y += 42
        if y == 95 + 3 * 42:
            picture.box(190, y - 30, 520, 28, MEMORY, "no credit: this channel waits; others on the connection go on")
            y += 26
    picture.words(
        450, y + 8, "backlog: buffers that wait at the writer. The reader lends floating buffers to", "middle"
    )
    picture.words(
        450, y + 26, "channels with backlog; when its pool is empty, the writer's fills, and emit() waits.", "middle"
    )
    return picture


def threads() -> Picture:
    """Draw the threads of a process and what each of them owns."""
    picture = Picture(900, 400, "The threads of a process, and who owns its memory")
    picture.frame(10, 10, 880, 380, "one process: a Spark worker, or yours")
    picture.box(
        35,
        50,
        240,
        92,
        TASK,
        "task thread (Python)",
        "your function, writer, reader",
        "drops the GIL to wait",
        "one a task",
    )
    picture.box(35, 175, 240, 76, TASK, "event loop (Python)", "the calls of async_map", "only where it is used")
    picture.box(35, 285, 240, 76, IO, "I/O thread (C)", "every socket and timer", "never takes the GIL")
    picture.box(350, 50, 215, 62, PLAIN, "local pool of a partition", "guaranteed + shared segments")
    picture.box(350, 135, 215, 62, PLAIN, "local pool of a gate", "exclusive + floating segments")
    picture.box(
        650,
        80,
        215,
        92,
        MEMORY,
        "NetworkBufferPool",
        "all segments of the process",
        "32 KiB each, lent and",
        "given back",
    )
    picture.box(350, 285, 215, 76, MEMORY, "buffer", "a segment and a count:", "queue, socket, reader hold it")
    picture.box(650, 285, 215, 76, PLAIN, "flusher thread (C)", "makes written bytes readable", "after 100 ms")
    picture.arrow((275, 80), (348, 80))
    picture.words(311, 72, "request", "middle")
    picture.arrow((650, 110), (567, 80))
    picture.arrow((650, 140), (567, 165))
    picture.words(608, 66, "lends", "middle")
    picture.arrow((457, 197), (457, 283))
    picture.words(467, 243, "filled, queued, sent")
    picture.arrow((275, 323), (348, 323))
    picture.words(311, 315, "moves", "middle")
    picture.arrow((565, 310), (757, 230), (757, 174))
    picture.words(690, 276, "at count zero: back")
    picture.arrow((650, 340), (567, 340))
    return picture


def exchanges() -> Picture:
    """Draw the two exchanges of Spark tasks side by side."""
    picture = Picture(900, 300, "Blocking and pipelined exchange")
    picture.frame(10, 10, 430, 280, "blocking: two stages, Spark's shuffle between")
    picture.frame(460, 10, 430, 280, "pipelined: one barrier stage, TCP between tasks")
    for number in range(2):
        y = 60 + 110 * number
        picture.box(30, y, 110, 60, TASK, f"task {number}", "write_buffers")
        picture.box(310, y, 110, 60, TASK, f"task {number + 2}", "read_buffers")
    picture.box(180, 85, 90, 95, SPARK, "shuffle", "files of", "32 KiB", "buffers")
    for y in (90, 200):
        picture.arrow((140, y), (178, 125 if y == 90 else 140))
        picture.arrow((270, 125 if y == 90 else 140), (308, y))
    picture.words(225, 265, "lost parts are computed again, alone", "middle")
    picture.box(480, 75, 130, 110, TASK, "task 0", "writes its records,", "reads its share,", "in one loop")
    picture.box(740, 75, 130, 110, TASK, "task 1", "writes its records,", "reads its share,", "in one loop")
    picture.arrow((612, 110), (738, 110), label="buffers")
    picture.arrow((738, 150), (612, 150), label="buffers")
    picture.box(620, 205, 110, 44, SPARK, "driver", "who is there")
    picture.arrow((545, 187), (545, 227), (618, 227), is_dashed=True)
    picture.arrow((805, 187), (805, 227), (732, 227), is_dashed=True)
    picture.words(675, 275, "first results before the last record; all or nothing", "middle")
    return picture


def tasks() -> Picture:
    """Draw two stream tasks: the loop of each, its operators, what it keeps."""
    picture = Picture(900, 370, "Stream tasks: a loop, a chain of operators, timers and state in each")
    picture.frame(10, 10, 425, 350, "a task: one thread")
    picture.frame(465, 10, 425, 350, "the next task: another thread")
    for x in (30, 485):
        picture.box(
            x, 45, 385, 62, IO, "mailbox loop", "mail: due timers, answered calls, cancel", "else a turn of input, 1 ms"
        )
    picture.box(30, 150, 95, 60, TASK, "source", "makes records")
    picture.box(160, 150, 105, 60, TASK, "operator", "your function")
    picture.box(300, 150, 115, 60, TASK, "RecordWriter", "key → buffer")
    picture.box(485, 150, 110, 60, PLAIN, "InputGate", "channels")
    picture.box(635, 150, 110, 60, TASK, "operator", "sets the key")
    picture.box(785, 150, 85, 60, TASK, "sink", "your function")
    picture.box(485, 265, 110, 70, PLAIN, "valve", "the lowest", "watermark")
    picture.box(635, 265, 110, 70, MEMORY, "timers", "by time, key,", "window")
    picture.box(765, 265, 105, 70, MEMORY, "state", "a table a name:", "key → value")
    picture.arrow((77, 107), (77, 148))
    picture.arrow((125, 180), (158, 180))
    picture.arrow((265, 180), (298, 180))
    picture.arrow((415, 180), (483, 180))
    picture.arrow((540, 107), (540, 148))
    picture.arrow((595, 180), (633, 180))
    picture.arrow((745, 180), (783, 180))
    picture.arrow((540, 210), (540, 263), is_dashed=True)
    picture.arrow((595, 300), (633, 300), is_dashed=True)
    picture.arrow((690, 265), (690, 212), is_dashed=True)
    picture.arrow((735, 210), (800, 263))
    picture.words(222, 240, "a call for each record, by reference;", "middle")
    picture.words(222, 258, "no copy, no queue between", "middle")
    picture.words(222, 300, "dashed: event time. A watermark goes with the", "middle")
    picture.words(222, 318, "records; timers fire before it goes on", "middle")
    return picture


def jobs() -> Picture:
    """Draw a job: the program with its job master, the task managers, and the two kinds of connections."""
    picture = Picture(900, 430, "Job control: the program, its job master, task managers and their tasks")
    picture.frame(10, 10, 330, 410, "the program (on Spark: the driver)")
    picture.box(30, 40, 290, 44, TASK, "your program", "execute(): operators become tasks")
    picture.box(30, 135, 130, 96, PLAIN, "job master", "decides; has no", "clock, no thread,", "no socket")
    picture.box(190, 112, 130, 50, SPARK, "target", "a launcher, or Spark")
    picture.box(190, 200, 130, 80, IO, "control server", "one thread: proof,", "MAC, heartbeats")
    picture.box(30, 270, 130, 50, PLAIN, "enumerators", "share out splits")
    picture.box(30, 355, 290, 50, TASK, "tasks in the program", "add_sink(results.append)")
    for number, (y, control_y, network_y) in enumerate([(10, 40, 125), (225, 345, 255)]):
        picture.frame(500, y, 390, 195, "")
        picture.words(880, y + 18, f"task manager {number}: a process with one slot", "end")
        picture.box(520, control_y, 125, 62, IO, "control thread", "deploy, cancel,", "report")
        picture.box(520, network_y, 125, 62, MEMORY, "network", "buffers, credit")
        picture.box(690, y + 35, 180, 56, TASK, f"source {number} → map {number}", "a task: a thread")
        picture.box(690, y + 120, 180, 56, TASK, f"count {number} → sink {number}", "a task: a thread")
        picture.arrow((645, control_y + 25), (688, y + 55))
        picture.arrow((645, control_y + 37), (688, y + 145))
    picture.arrow((95, 84), (95, 133))
    picture.arrow((95, 231), (95, 268))
    picture.arrow((160, 160), (188, 142))
    picture.arrow((160, 200), (188, 222))
    picture.arrow((188, 240), (162, 218))
    picture.arrow((320, 130), (498, 30), is_dashed=True)
    picture.arrow((320, 145), (498, 240), is_dashed=True)
    picture.words(395, 70, "starts", "middle")
    picture.arrow((320, 215), (450, 75), (518, 75))
    picture.arrow((518, 85), (455, 85), (322, 228))
    picture.arrow((320, 255), (450, 376), (518, 376))
    picture.arrow((518, 386), (446, 386), (322, 270))
    picture.words(412, 300, "control: TCP,")
    picture.words(412, 316, "MAC, JSON")
    picture.arrow((570, 187), (570, 253))
    picture.arrow((595, 255), (595, 189))
    picture.words(605, 218, "records: TCP, credit")
    picture.arrow((520, 310), (478, 402), (322, 396))
    picture.words(415, 418, "records", "middle")
    return picture


def checkpoints() -> Picture:
    """Draw the way of a checkpoint: barriers among the records, states into storage, answers to the job master."""
    picture = Picture(900, 400, "A checkpoint: barriers go with the records, state goes to storage, then it counts")
    picture.box(30, 30, 200, 66, PLAIN, "job master", "begins it, collects answers,", "says when it is complete")
    for number, y in enumerate((150, 270)):
        picture.box(30, y, 150, 66, TASK, f"source {number}", "position in its input")
        picture.box(385, y, 190, 66, TASK, f"count {number}", "waits for both barriers,", "then: state, timers")
        picture.box(690, y, 180, 66, TASK, f"sink {number}", "prepares its output")
    picture.box(385, 30, 485, 66, MEMORY, "storage", "chk-7/: a file of each subtask, _metadata at last")
    for y in (183, 303):
        picture.arrow((180, y), (383, y))
        picture.arrow((575, y), (688, y))
    picture.arrow((180, 195), (383, 288))
    picture.arrow((180, 291), (383, 198))
    for x, y in ((225, 172), (225, 292), (600, 172), (600, 292)):
        picture.box(x, y, 22, 22, SPARK, "7")
    picture.arrow((105, 96), (105, 148))
    picture.words(115, 128, "1 begin")
    picture.arrow((60, 96), (60, 120), (14, 120), (14, 303), (28, 303))
    picture.words(275, 358, "2 barriers, behind the records that count", "middle")
    picture.arrow((480, 150), (480, 98), is_dashed=True)
    picture.arrow((780, 150), (780, 98), is_dashed=True)
    picture.words(490, 132, "3 state, by a thread of its own")
    picture.arrow((230, 63), (383, 63))
    picture.words(306, 54, "4 all are there", "middle")
    picture.words(690, 358, "5 complete: sinks commit", "middle")
    return picture


PICTURES = {
    "data.svg": data,
    "credit.svg": credit,
    "threads.svg": threads,
    "exchanges.svg": exchanges,
    "tasks.svg": tasks,
    "jobs.svg": jobs,
    "checkpoints.svg": checkpoints,
}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "assets"
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw().text(), "utf-8")
