"""What the page draws of a picture, and what it asks for: in a real browser, without a job."""

import contextlib
import http.client
import json
import random
import re
import socket
from itertools import pairwise
from types import SimpleNamespace

import pytest
from support.pages.chromium import PROGRAM, chromium
from support.pages.page_pictures import (
    JOB_ID,
    NAMES,
    NOW,
    QUIET_CHECKPOINTS,
    after_a_loss,
    held_back,
    many_tasks,
    picture,
    vertex,
)
from support.pages.page_server import page_server
from support.worlds.master_world import MasterWorld, pipeline

from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.server import JobServer

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def calm(browser):
    """A page that draws nothing: for functions that need none."""
    with page_server(picture()) as server:
        page = browser.page(server.url)
        page.wait_for("document.querySelector('main')")
        yield page
        assert page.errors() == []
        page.close()


@pytest.fixture
def open_page(browser):
    """Returns a function from a picture to (page, server); what the browser complains about fails the test."""
    opened = []

    def open_it(made, query="", wait="main", **options):
        context = page_server(made)
        server = context.__enter__()
        page = browser.page(server.url + query, **options)
        opened.append((page, context))
        page.wait_for(f"document.querySelector({wait!r})")
        return page, server

    yield open_it
    for page, context in opened:
        errors = page.errors()
        page.close()
        context.__exit__(None, None, None)
        assert [each for each in errors if not re.search(" 40| 503|ERR_CONNECTION_REFUSED", each)] == []


def call(page, module, expression, **values):
    """The value of an expression in which `m` is a module, and the values are known by their names."""
    names = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    return page.run(f"import('/static/{module}.js').then((m) => {{ {names} return {expression}; }})")


# ---- pure functions


@pytest.mark.parametrize(
    ("function", "cases"),
    [
        ("short", {0: "0", 7: "7", 2.5: "2.5", 999: "999", 34_567: "34.6 k", 999_960: "1.0 M", 5e12: "5.0 T"}),
        ("size", {0: "0 B", 999: "999 B", 75_000: "73.2 KiB", 1 << 30: "1.0 GiB", 150 << 20: "150 MiB"}),
        ("duration", {0: "0 ms", 38: "38 ms", 4_240: "4.2 s", 12_400: "12 s", 59_400: "59 s", 60_000: "1 min",
                      725_000: "12 min", 305_000: "5 min 5 s", 12_000_000: "3 h 20 min", 2 * 86_400_000: "2 days",
                      400_000_000_000: "12.7 years", -500: "−500 ms"}),
        ("age", {400: "now", 1_900: "2 s ago", 61_000: "1 min 1 s ago"}),
        ("eventTime", {1_373_791_200_000: "2013-07-14 08:40:00", 2**63: "end", -(2**63): "–"}),
        ("percent", {0: "0 %", 0.456: "46 %", 1: "100 %"}),
    ],
)  # fmt: skip
def test_numbers_are_written_as_people_read_them(calm, function, cases):
    assert call(calm, "format", f"values.map((each) => m.{function}(each))", values=list(cases)) == list(cases.values())
    assert call(calm, "format", f"m.{function}(null)") == "–"


def test_boxes_never_lie_on_each_other_nor_before_an_edge_that_passes(calm):
    chance = random.Random(5)
    for _ in range(25):
        count = chance.randint(1, 12)
        vertices = [{"id": str(place)} for place in range(count)]
        edges = [
            {"source": str(one), "target": str(other)}
            for one in range(count)
            for other in range(one + 1, count)
            if chance.random() < 0.3
        ]
        made = call(
            calm, "layout", "(({boxes, ...rest}) => ({...rest, boxes: [...boxes]}))(m.layout(vertices, edges))",
            vertices=vertices, edges=edges,
        )  # fmt: skip
        boxes = dict(made["boxes"])
        size = call(calm, "layout", "m.BOX")
        assert len(boxes) == count and len(made["paths"]) == len(edges)
        for place in boxes.values():
            assert 0 <= place["x"] <= made["width"] - size["width"]
            assert 0 <= place["y"] <= made["height"] - size["height"]
        columns = {}
        for place in boxes.values():
            columns.setdefault(place["x"], []).append(place["y"])
        for column in columns.values():
            assert all(below - above >= size["height"] for above, below in pairwise(sorted(column)))
        for edge in edges:
            assert boxes[edge["source"]]["x"] < boxes[edge["target"]]["x"]
        for path in made["paths"]:  # its level parts are where it passes a layer
            numbers = [
                float(text)
                for text in path["d"].replace("M", " ").replace("C", " ").replace("H", " H ").split()
                if text != "H"
            ]
            parts = path["d"].split("H")
            for part, rest in pairwise(parts):
                y, start, end = float(part.split()[-1]), float(part.split()[-2]), float(rest.split("C")[0])
                inside = [box for box in boxes.values() if start < box["x"] + size["width"] and box["x"] < end]
                assert all(not box["y"] <= y <= box["y"] + size["height"] for box in inside), numbers


# ---- drawn


def test_a_thousand_subtasks_are_a_map(open_page):
    page, _ = open_page(held_back(1000), wait="#subtasks")
    assert page.run("document.querySelectorAll('.cell').length") == 1000
    assert page.run("document.querySelectorAll('#subtasks tbody tr').length") == 20
    assert page.run("document.documentElement.scrollHeight") < 3_200  # of pixels
    # A new picture of all that is drawn within a part of its second, although many look at the processor.
    cost = "document.querySelector('#subtasks thead button').click(); return performance.now() - start"
    assert page.run(f"(() => {{ const start = performance.now(); {cost}; }})()") < 1000


def test_the_table_of_subtasks_can_be_sorted(open_page):
    page, _ = open_page(held_back(150), wait="#subtasks")
    assert page.run("document.querySelectorAll('#subtasks tbody tr').length") == 20
    rows = "[...document.querySelectorAll('#subtasks tbody tr')].map((row) => row.cells[0].innerText)"
    page.run("document.querySelector('#task .more').click()")
    page.wait_for("document.querySelectorAll('#subtasks tbody tr').length === 150")
    page.run("document.querySelector('#subtasks thead button').click()")
    page.wait_for("document.querySelector('#subtasks thead th').getAttribute('aria-sort') === 'ascending'")
    assert page.run(rows) == [f"{number:,}" for number in range(150)]
    page.run("document.querySelector('#subtasks thead button').click()")
    page.wait_for("document.querySelector('#subtasks thead th').getAttribute('aria-sort') === 'descending'")
    assert page.run(rows)[0] == "149"


def test_it_is_used_by_keys_and_keeps_its_place_when_a_picture_comes(open_page):
    made = picture()
    page, server = open_page(made, wait="#subtasks")
    for _ in range(30):
        page.press("Tab", 9)
        if page.run("document.activeElement?.dataset?.vertex") == f"{5:032x}":
            break
    page.press("Enter", 13)
    page.wait_for("document.querySelector('#task-title').innerText === 'Sink: results'")
    later = picture(now=NOW + 1_000)
    later["vertices"][5]["totals"]["records_in"] = 77_777
    server.picture = later
    page.wait_for("document.querySelector('.facts').innerText.includes('77,777')")
    assert page.run("document.activeElement.dataset.vertex") == f"{5:032x}"
    assert page.run("document.querySelector('.box[aria-pressed=true]').dataset.vertex") == f"{5:032x}"


def test_batches_of_columns_are_told_with_their_rows(open_page):
    made = picture()
    sink = made["vertices"][5]
    sink["rates"] |= {"records_in": 500.0, "rows_in": 4_096_000.0}
    sink["totals"] |= {"records_in": 1_000, "rows_in": 8_192_000}
    sink["history"]["rows_in"] = [4_096_000.0] * 120
    sink["operators"] = [
        {"operator_id": "ab", "name": "AsRecords", "records_in": 1_000, "rows_in": 8_192_000, "records_out": 8_192_000},
        {"operator_id": "cd", "name": "Sink", "records_in": 8_192_000, "records_out": 0},
    ]
    page, _ = open_page(made, wait="#subtasks")
    box = f"document.querySelector('.box[data-vertex=\"{5:032x}\"]')"
    assert "4.1 M rows/s in" in page.run(f"{box}.innerText")
    page.run(f"{box}.click()")
    page.wait_for("document.querySelector('#task-title').innerText === 'Sink: results'")
    facts = page.text("#task .facts")
    for wanted in ("8,192,000 rows", "4.1 M/s", "1,000", "500/s · 8,192 rows each now"):
        assert wanted in facts, facts
    assert "Rows in" in page.text("#task .charts") and "Rows in" in page.text("#task table.narrow")


def test_who_listens_is_told_all_that_is_shown(open_page):
    page, _ = open_page(held_back(), wait="#subtasks")
    told = page.accessible()
    buttons = [name for role, name in told if role == "button"]
    assert all(name.strip() for name in buttons)
    assert any(
        name.startswith("by airport: Window(TumblingEventTimeWindows, 1 h), 2 subtasks, running, ") for name in buttons
    )
    headings = [name for role, name in told if role == "heading"]
    for wanted in ("a year of flights", "Tasks", "Checkpoints", "Task managers", "Failures"):
        assert wanted in headings
    assert any("Where is it stuck?" in name and "bad" in name for name in headings)
    assert {"columnheader", "rowheader", "main", "region", "table"} <= {role for role, _ in told}
    assert all(name for role, name in told if role in ("image", "region", "progressbar"))
    assert page.text("#spoken") == "running; stuck at join: CoProcess"


def test_names_are_text_and_never_markup(open_page):
    evil = "<img src=x onerror=\"document.title='owned'\"> -> <script>1</script>"
    made = picture(name=evil)
    made["vertices"][0] = vertex(0, evil, 2)
    made["exceptions"] = after_a_loss()["exceptions"]
    made["exceptions"]["exceptionHistory"]["entries"][0]["stacktrace"] = evil
    page, _ = open_page(made)
    assert page.text("h1") == evil
    assert page.text("pre") == evil
    assert page.run("document.querySelectorAll('img, #page script').length") == 0
    assert page.run("document.title") == f"{evil} · running"


@pytest.mark.parametrize("width", [375, 768, 1360])
def test_no_window_is_too_narrow(open_page, width):
    page, _ = open_page(after_a_loss(), wait="#subtasks", width=width)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_an_empty_job_says_so_everywhere(open_page):
    made = picture(vertices=[], edges=[], taskmanagers=[], state="CREATED", tasks={}, checkpoints=QUIET_CHECKPOINTS)
    page, _ = open_page(made)
    text = page.text("main")
    for wanted in ("The job has no tasks.", "None is there yet.", "None so far.", "takes none by itself"):
        assert wanted in text


@pytest.mark.parametrize(("share", "height"), [(1, 4.0), (0.5, 29.0), (0, 54.0)])
def test_a_share_that_never_changes_is_drawn_where_it_is(open_page, share, height):
    page, _ = open_page(picture())
    chart = "m.lineChart('Busy', 9000, [{ values: [share, share], class: 'busy' }], [1000, 9000], String, 1)"
    line = call(page, "charts", f"{chart}.children[1].children[1].attributes.d", share=share)
    assert {float(point.split()[1]) for point in line[1:].split("L")} == {height}


def test_a_failure_stands_whole_with_what_it_took_down(open_page):
    made = after_a_loss()
    page, _ = open_page(made)
    entries = made["exceptions"]["exceptionHistory"]["entries"]
    assert page.text("#failures pre") == entries[0]["stacktrace"]
    assert page.text("#failures h3").startswith("TaskManagerLostError: task manager 'worker-1' was lost: its process")
    assert "ValueError: invalid literal for int() with base 10: '12:7x'" in page.text("#failures summary")
    text = page.text("#failures")
    assert "What it took down: 11 subtasks began again: Source: flights (1/2)" in text and "and 5 more." in text
    page.run("document.querySelector('#failures details').open = true")
    assert "invalid literal for int()" in page.text("#failures details pre")


OUR_FRAMES = """  File "/usr/lib/python3.11/threading.py", line 982, in run
    self._target(*self._args)
  File "/opt/venv/site-packages/flinkbuf/streaming/task.py", line 162, in run
    self._work()
    ~~~~~~~~~~^^
"""
OWN_FRAMES = """  File "/home/ada/flights.py", line 88, in parse
    return int(text)
  File "/opt/venv/site-packages/flinkbuf/types/row.py", line 5, in pack
    raise
ValueError: no number
"""
HEAD = "Traceback (most recent call last):\n"
ALSO = "\nDuring handling of the above exception, another exception occurred:\n\n"


def test_a_traceback_begins_with_the_frames_of_the_program(open_page):
    made = after_a_loss()
    entries = made["exceptions"]["exceptionHistory"]["entries"]
    entries[0]["stacktrace"] = HEAD + OUR_FRAMES + OWN_FRAMES + ALSO + HEAD + OUR_FRAMES + OWN_FRAMES
    entries[1]["stacktrace"] = HEAD + OUR_FRAMES + "ValueError: a mistake of ours\n"
    page, _ = open_page(made)
    shown = page.run("[...document.querySelectorAll('#failures pre')].map((each) => each.textContent)")
    assert shown == [HEAD + OWN_FRAMES + ALSO + HEAD + OWN_FRAMES, entries[0]["stacktrace"], entries[1]["stacktrace"]]
    assert "flinkbuf's frames" in page.text("#failures summary")


def test_a_command_is_asked_for_twice_and_carries_the_token(open_page):
    page, server = open_page(picture(), query=f"?token=secret#/job/{JOB_ID}")
    assert page.run("location.search + location.hash") == f"#/job/{JOB_ID}"
    page.click("#do-cancel")
    page.wait_for("document.querySelector('dialog[open]')")
    assert server.asked == []
    page.press("Escape", 27)
    page.wait_for("!document.querySelector('dialog')")
    assert server.asked == []
    page.click("#do-cancel")
    page.wait_for("document.querySelector('dialog[open]')")
    page.run("document.querySelector('dialog button[type=submit]').click()")
    page.wait_for("!document.querySelector('dialog')")
    assert server.asked == [("PATCH", f"/jobs/{JOB_ID}?mode=cancel", "Bearer secret", {})]


def test_who_listens_at_the_port_of_a_program_that_died_learns_no_token_that_is_good(browser):
    world = MasterWorld(pipeline())
    world.start().register_all()
    job = SimpleNamespace(picture=PictureMaker(world.job).make(1000))
    token = "a-token-of-a-test"
    with contextlib.closing(JobServer(token=token)) as server:
        server.add(ServedJob(job))
        page = browser.page(server.link(job.picture.job_id))
        page.wait_for("document.querySelector('main')")
        port = server.port
    heard = []
    with socket.create_server(("127.0.0.1", port)) as thief:
        thief.settimeout(30)
        while not any(b"Authorization" in each for each in heard):
            client, _ = thief.accept()
            client.settimeout(30)
            heard.append(client.recv(10_000))
            client.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            client.close()
    page.close()
    assert token.encode() not in b"".join(heard)
    stolen = re.search(rb"Authorization: (\S+ \S+)", b"".join(heard))[1].decode()
    with contextlib.closing(JobServer(ports=(port,), token=token)) as again:
        again.add(ServedJob(job))
        statuses = []
        for given in (stolen, f"Bearer {token}"):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
                connection.request("POST", f"/jobs/{job.picture.job_id}/savepoints", headers={"Authorization": given})
                statuses.append(connection.getresponse().status)
    assert statuses == [401, 400], "the second lacks a directory only"


def test_without_the_token_it_says_what_is_missing(open_page):
    page, _ = open_page(picture())
    page.click("#do-cancel")
    page.wait_for("document.querySelector('dialog[open]')")
    page.run("document.querySelector('dialog button[type=submit]').click()")
    page.wait_for("document.querySelector('dialog [role=alert]')?.innerText.includes('the token')")


@pytest.mark.parametrize(
    ("state", "more", "text"),
    [
        ("FAILED", {"failure": "ValueError: no such airport"}, "Failed: ValueError: no such airport"),
        ("FAILED", {}, "The job has failed."),  # out of the archive of an older version
        (
            "FINISHED",
            {"savepoint": "/s/savepoint-1"},
            "Stopped with savepoint /s/savepoint-1: execution.state-recovery",
        ),
        ("FINISHED", {"savepoint": None}, "The job has finished."),
        ("CANCELED", {}, "The job was canceled."),
    ],
)
def test_a_job_that_is_over_takes_no_command_and_says_how_it_ended(open_page, state, more, text):
    page, _ = open_page(picture(state=state, **{"end-time": NOW}, **more))
    assert page.text(".banner").startswith(text)
    assert page.run("document.querySelector('.commands')") is None
    assert page.run("document.querySelector('.banner').matches('.is-bad-news')") is (state == "FAILED")


def test_what_has_ended_can_be_looked_at_when_its_program_is_gone(open_page):
    made = picture(width=3, state="FAILED", failure="ValueError: no such airport")
    page, server = open_page(made, query=f"#/job/{JOB_ID}")
    page.wait_for("document.querySelector('.banner')")
    page.wait_for("document.querySelector('footer.is-whole')")  # all of it was fetched
    server.status = 503
    asked = len(server.paths)
    page.run(f"document.querySelector('[data-vertex=\"{3:032x}\"]').click()")
    page.wait_for("document.querySelectorAll('#subtasks tbody tr').length === 3")
    page.run("new Promise((resolve) => setTimeout(resolve, 1300))")  # more than it waits between two pictures
    assert [path for path in server.paths[asked:] if "picture" in path] == []
    assert page.text(".banner").startswith("Failed: ValueError")


def test_a_program_that_is_gone_is_not_said_to_run(open_page):
    page, server = open_page(picture())
    server.shutdown()
    server.server_close()
    page.wait_for("document.querySelector('.banner')?.innerText.startsWith('Connection lost.')")
    assert page.run("document.title") == "a year of flights · connection lost"
    assert page.text("[data-question='1'] .answer") == "Not known"
    assert "Running for 10 min" in page.text("[data-question='1'] .detail")
    assert page.run("document.querySelectorAll('.question-card.is-good').length") == 0
    assert page.run("document.querySelector('.commands')") is None


def test_who_asks_for_something_when_the_program_is_gone_is_told_so(open_page):
    page, server = open_page(picture(), query=f"?token=secret#/job/{JOB_ID}")
    page.click("#do-stop")
    page.wait_for("document.querySelector('dialog[open]')")
    server.shutdown()
    server.server_close()
    page.run("document.querySelector('dialog button[type=submit]').click()")
    page.wait_for("document.querySelector('dialog [role=alert]')?.innerText.startsWith('The program does not answer')")


def test_a_job_that_is_not_known_and_one_that_comes_later(open_page):
    page, server = open_page(picture(), wait="main")
    server.status = 404
    page.wait_for("document.querySelector('.waiting h1')?.innerText === 'No such job'")
    assert "Job is not known here." in page.text("#page")
    server.status = 200
    page.wait_for("document.querySelector('main')")


def test_other_jobs_can_be_chosen(open_page):
    with page_server(picture()) as server:
        server.jobs = [
            {"jid": JOB_ID, "name": "one", "state": "RUNNING"},
            {"jid": "6f" * 16, "name": "two", "state": "FINISHED"},
        ]
        page, other = open_page(picture())
        other.jobs = server.jobs
        page.run("location.reload()")
        page.wait_for("document.querySelectorAll('#jobs option').length === 2")
        page.run(
            "(() => { const it = document.querySelector('#jobs'); it.value = '%s'; it.onchange({target: it}); })()"
            % ("6f" * 16)
        )
        page.wait_for(f"location.hash === '#/job/{'6f' * 16}'")


FLAMES = {
    "endTimestamp": NOW,
    "data": {
        "name": "root",
        "value": 100,
        "children": [
            {
                "name": "flinkbuf.task.run:7",
                "value": 100,
                "children": [
                    {"name": "program.parse:3", "value": 75, "children": []},
                    {"name": "program.read:9", "value": 25, "children": []},
                ],
            }
        ],
    },
}


def test_a_flame_graph_is_as_wide_as_its_samples_and_can_be_entered(open_page):
    page, server = open_page(picture(), wait="#subtasks")
    page.run("document.querySelector('#task .card-head button').click()")
    page.wait_for("document.querySelector('dialog.flame .empty')?.innerText.startsWith('Looking')")
    server.flame = FLAMES
    page.wait_for("document.querySelectorAll('.flame-row').length === 4")
    facts = "[each.innerText, Math.round(parseFloat(each.style.width))]"
    wide = page.run(f"[...document.querySelectorAll('.flame-row')].map((each) => {facts})")
    assert wide == [["root", 100], ["flinkbuf.task.run:7", 100], ["program.parse:3", 75], ["program.read:9", 25]]
    page.run("[...document.querySelectorAll('.flame-row')][2].click()")
    page.wait_for("document.querySelectorAll('.flame-row').length === 1")
    assert "program.parse:3" in page.text(".flame-row")
    server.flame = {**FLAMES, "endTimestamp": NOW + 9_000}
    page.run(
        "[...document.querySelectorAll('.flame-choices button')]"
        ".find((each) => each.innerText === 'Look again').click()"
    )
    page.wait_for("document.querySelector('.flame-choices').innerText.includes('Look again')")
    server.flame = {"endTimestamp": -1}
    page.run("[...document.querySelectorAll('dialog .choices button')][1].click()")
    page.wait_for("document.querySelector('dialog.flame .empty')?.innerText.startsWith('The task does not run')")


def test_all_names_of_the_made_up_job_are_on_its_page(open_page):
    page, _ = open_page(picture())
    assert page.run("[...document.querySelectorAll('.box')].map((each) => each.title)") == list(NAMES)


# ---- jobs of many tasks


def boxes_that(page, is_dim):
    chosen = ".box.is-dim" if is_dim else ".box:not(.is-dim)"
    return page.run(f"[...document.querySelectorAll('{chosen}')].map((each) => each.title)")


def type_into(page, selector, text):
    script = f"(() => {{ const it = document.querySelector({selector!r}); it.value = {text!r}; "
    page.run(script + "it.dispatchEvent(new Event('input', { bubbles: true })); })()")


def test_a_task_is_found_by_a_part_of_its_name(open_page):
    page, _ = open_page(picture(), wait="#subtasks")
    type_into(page, "#search", "WEATH")
    page.wait_for("document.querySelectorAll('.box.is-dim').length === 5")
    assert boxes_that(page, is_dim=False) == ["Source: weather"]
    assert page.text(".tools .aside") == "1 of 6 tasks"
    page.run("document.querySelector('.tools').requestSubmit()")
    page.wait_for("document.querySelector('#task-title').innerText === 'Source: weather'")
    type_into(page, "#search", "source")
    page.run("document.querySelector('.tools').requestSubmit()")  # the next one, and round again
    page.wait_for("document.querySelector('#task-title').innerText.startsWith('Source: flights')")
    type_into(page, "#search", "nobody")
    page.wait_for("document.querySelectorAll('.box.is-dim').length === 6")
    page.run("document.querySelector('.tools').requestSubmit()")
    assert page.text("#task-title").startswith("Source: flights")


def test_the_graph_can_be_made_smaller_and_larger(open_page):
    page, _ = open_page(many_tasks(40), wait="#subtasks")
    room = "document.querySelector('.graph-scroll').scrollWidth"
    before = page.run(room)
    assert before > 2_500
    page.run(
        "[...document.querySelectorAll('.tools .choices button')].find((each) => each.innerText === 'Fit').click()"
    )
    page.wait_for(f"{room} <= document.querySelector('.graph-scroll').clientWidth")
    drawn = "document.querySelector('.box').getBoundingClientRect().width"
    small = page.run(drawn)
    page.run("document.querySelector('.tools [aria-label=Larger]').click()")
    page.wait_for(f"{drawn} > {small}")
    wheel = "new WheelEvent('wheel', { deltaY: 200, ctrlKey: true, bubbles: true, cancelable: true })"
    larger = page.run(drawn)
    assert page.run(f"document.querySelector('.graph-scroll').dispatchEvent({wheel})") is False, (
        "the window keeps its size"
    )
    page.wait_for(f"{drawn} < {larger}")
    plain = "new WheelEvent('wheel', { deltaY: 200, bubbles: true, cancelable: true })"
    assert page.run(f"document.querySelector('.graph-scroll').dispatchEvent({plain})") is True


def test_many_tasks_are_a_list_that_can_be_searched_and_sorted(open_page):
    page, _ = open_page(many_tasks(200, width=64), wait="#subtasks")
    rows = "[...document.querySelectorAll('#vertices tbody tr')]"
    assert page.run("document.querySelectorAll('.box').length") == 0
    assert page.run(f"{rows}.length") == 200
    assert page.run("document.documentElement.scrollWidth") <= 1360
    assert page.run("document.querySelector('#tasks').offsetHeight") < 800
    type_into(page, "#search", "stage 17")
    page.wait_for(f"{rows}.length === 11")
    page.run(f"{rows}[1].querySelector('button').click()")
    page.wait_for("document.querySelector('#task-title').innerText.startsWith('stage 170:')")
    type_into(page, "#search", "")
    headings = "[...document.querySelectorAll('#vertices thead button')]"
    page.run(f"{headings}.find((each) => each.innerText.startsWith('Busy')).click()")
    page.wait_for("document.querySelector('#vertices th[aria-sort=descending]')")
    shares = [int(each.split(" %")[0]) for each in page.run(f"{rows}.map((row) => row.cells[5].innerText.trim())")]
    assert shares == sorted(shares, reverse=True)


def test_a_picture_of_200_tasks_of_64_subtasks_is_drawn_quickly(open_page):
    page, server = open_page(many_tasks(200, width=64), wait="#subtasks")
    server.picture = later = many_tasks(200, width=64)
    later["now"] += 1_000
    redraw = "document.querySelector('#vertices thead button').click(); return performance.now() - start"
    spans = [page.run(f"(() => {{ const start = performance.now(); {redraw}; }})()") for _ in range(5)]
    assert min(spans) < 500  # ms, whoever else is busy; it is drawn once a second


# ---- what is asked for


def dialog(page, text):
    page.wait_for(f"document.querySelector('dialog.inspector')?.innerText.includes({text!r})")


def close(page):
    page.press("Escape", 27)
    page.wait_for("!document.querySelector('dialog')")


def test_logs_are_shown_from_their_end_and_can_be_searched(open_page):
    page, server = open_page(picture(), wait="#subtasks")
    server.answers["/jobmanager/log"] = "".join(f"2026-01-01 WARNING airports late by {n}\n" for n in range(6_000))
    server.answers["/taskmanagers/worker-1/log"] = "2026-01-01 WARNING <b>worker</b>\n"
    page.run("document.querySelector('#managers header [data-look=log]').click()")
    dialog(page, "late by 5999")
    assert "6,000 lines, the last 5,000 shown" in page.text("dialog .tools")
    assert page.run("document.querySelector('dialog pre').scrollTop") > 1_000
    type_into(page, "dialog input", "BY 417")
    page.wait_for("document.querySelector('dialog .tools').innerText.includes('11 of 6,000 lines')")
    assert page.text("dialog pre").count("late by 417") == 11
    server.answers["/jobmanager/log"] = "2026-01-01 WARNING by 417 again\n"
    page.run("[...document.querySelectorAll('dialog button')].find((each) => each.innerText === 'Look again').click()")
    dialog(page, "by 417 again")
    close(page)
    page.run("[...document.querySelectorAll('#manager-table [data-look=log]')][1].click()")
    dialog(page, "<b>worker</b>")
    assert page.text("#inspector-title") == "Log of worker-1"
    close(page)
    server.answers["/jobmanager/log"] = ""
    page.run("document.querySelector('#managers header [data-look=log]').click()")
    dialog(page, "Nothing was logged")


def test_threads_and_configuration_can_be_searched(open_page):
    page, server = open_page(picture(), wait="#subtasks")
    stacks = [{"threadName": name, "stringifiedThreadInfo": f'"{name}" Id=7\n  File "x.py", line 3'} for name in NAMES]
    server.answers["/taskmanagers/worker-0/thread-dump"] = {"threadInfos": stacks}
    server.answers[f"/jobs/{JOB_ID}/jobmanager/config"] = [
        {"key": "rest.port", "value": "8081"},
        {"key": "s3.secret-key", "value": "******"},
    ]
    page.run("document.querySelector('#manager-table [data-look=threads]').click()")
    dialog(page, '"Sink: results" Id=7')
    type_into(page, "dialog input", "sink")
    page.wait_for("document.querySelector('dialog .tools').innerText.includes('1 of 6 threads')")
    close(page)
    page.run("document.querySelector('#managers header [data-look=configuration]').click()")
    dialog(page, "s3.secret-key")
    type_into(page, "dialog input", "8081")
    page.wait_for("document.querySelectorAll('dialog tbody tr').length === 1")


def test_a_checkpoint_is_told_by_task_and_subtask(open_page):
    page, server = open_page(picture(), wait="#subtasks")
    task = {"num_acknowledged_subtasks": 2, "num_subtasks": 2, "end_to_end_duration": 47, "checkpointed_size": 2_048}
    task |= {"state_size": 40_960, "persisted_data": 0}
    path = f"/jobs/{JOB_ID}/checkpoints/details/14"
    server.answers[path] = {
        "is_savepoint": False,
        "status": "COMPLETED",
        "external_path": "/c/chk-14",
        "tasks": {f"{4:032x}": task},
    }
    made = {
        "index": 0,
        "status": "completed",
        "ack_timestamp": NOW,
        "end_to_end_duration": 33,
        "checkpointed_size": 1_024,
    }
    made |= {
        "state_size": 20_480,
        "checkpoint": {"sync": 2, "async": 11},
        "alignment": {"duration": 5},
        "start_delay": 3,
    }
    pending = {"index": 1, "status": "pending_or_failed", "className": "pending_or_failed"}
    server.answers[f"{path}/subtasks/{4:032x}"] = {"subtasks": [made, pending]}
    page.run("document.querySelector('#checkpoint-table tbody button').click()")
    dialog(page, "/c/chk-14")
    assert "join: CoProcess" in page.text("dialog tbody") and "40.0 KiB" in page.text("dialog tbody")
    page.run("document.querySelector('dialog tbody button').click()")
    dialog(page, "not heard of")
    assert "33 ms" in page.text("dialog") and "Subtasks of join: CoProcess" in page.text("dialog")


def test_where_the_job_began_stands_with_its_checkpoints(open_page):
    made = picture()
    made["checkpoints"]["latest"]["restored"] = {
        "id": 9, "restore_timestamp": NOW - 60_000, "is_savepoint": True, "external_path": "/s/savepoint-9"
    }  # fmt: skip
    page, _ = open_page(made)
    assert page.text(".restored").startswith("Restored from savepoint 9, 2025-12-17 19:32:20: /s/savepoint-9")


def test_the_attempts_of_a_subtask_are_told(open_page):
    made = after_a_loss()
    made["vertices"][3]["subtasks"]["rows"][1][1] = 2  # the third
    page, server = open_page(made, wait="#subtasks")
    path = f"/jobs/{JOB_ID}/vertices/{3:032x}/subtasks/1/attempts"
    metrics = {"read-records": 7, "write-records": 8}
    server.missing = f"{path}/0"  # it is forgotten
    for number in (1, 2):
        state = "RUNNING" if number == 2 else "FAILED"
        about = {"attempt": number, "status": state, "taskmanager-id": f"worker-{number}", "host": "10.0.0.7"}
        about |= {"start-time": NOW, "duration": 1_500, "metrics": metrics}
        server.answers[f"{path}/{number}"] = {**about, "failure": None if number == 2 else "ValueError: no number"}
    page.run(f"document.querySelector('[data-vertex=\"{3:032x}\"]').click()")
    page.wait_for("document.querySelector('#subtasks tbody button')")
    assert page.text("#subtasks tbody button") == "attempt 3"
    page.run("document.querySelector('#subtasks tbody button').click()")
    dialog(page, "worker-1")
    assert page.run("[...document.querySelectorAll('dialog tbody tr')].map((row) => row.cells[1].innerText)") == [
        "running",
        "failed",
    ]
    assert page.text("dialog tbody tr:nth-child(2)").rstrip().endswith("ValueError: no number")


def test_what_cannot_be_had_is_said(open_page):
    page, server = open_page(picture(), wait="#subtasks")
    server.status, server.error = 503, "There was no answer within 10 s."
    page.run("document.querySelector('#manager-table [data-look=log]').click()")
    dialog(page, "There was no answer within 10 s.")


def test_all_jobs_of_the_program_are_listed(open_page):
    jobs = [
        {"jid": f"{number:032x}", "name": f"job {number}", "state": "FAILED" if number == 3 else "FINISHED"}
        | {"start-time": NOW + number, "duration": 61_000, "tasks": {"total": 4}}
        for number in range(25)
    ]
    page, server = open_page(picture())
    server.jobs = [*jobs, {**jobs[0], "jid": JOB_ID, "name": "a year of flights", "state": "RUNNING"}]
    page.run("location.reload()")
    page.wait_for("document.querySelectorAll('#all-jobs tbody tr').length === 20")
    assert page.text("#all-jobs tbody tr").startswith("job 24")
    page.run("document.querySelector('#all-jobs .more').click()")
    page.wait_for("document.querySelectorAll('#all-jobs tbody tr').length === 26")
    assert "this one" in page.text("#all-jobs") and "failed" in page.text("#all-jobs")
    page.run("document.querySelector('#all-jobs tbody a').click()")
    page.wait_for(f"location.hash === '#/job/{24:032x}'")


def test_an_archive_is_not_asked_for_what_it_has_not(open_page):
    page, _ = open_page(picture(**{"is-archived": True, "can-command": False}, state="FINISHED"))
    assert page.run("document.querySelectorAll('[data-look], #checkpoint-table button').length") == 0
