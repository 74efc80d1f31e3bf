"""``flinkbuf top``: what stands in the terminal is what the picture says; who is not there is named."""

import contextlib
import io
import json
import socket
import sys
import threading

import pytest
from support.pages.page_pictures import JOB_ID, NAMES, NOW, after_a_loss, held_back, picture
from support.pages.page_server import page_server, with_answers
from support.worlds.master_world import MasterWorld, pipeline

from flinkbuf.commands import top as top_command
from flinkbuf.commands.cli import main
from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.picture.top_view import (
    MANAGERS_MAX,
    TASKS_MAX,
    bar,
    cells_of,
    ended_view_of,
    rich_of,
    text_of,
    view_of,
)
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.server import JobServer


def test_all_that_the_picture_says_stands_there():
    text = text_of(view_of(with_answers(held_back())))
    assert text.splitlines()[0] == f"a year of flights · running for 10 min · {JOB_ID}"
    assert "✗ Where is it stuck?      join: CoProcess  (subtask 1 is 100 % busy · holds back 3 tasks" in text
    for name in NAMES:
        assert name[:30] in text
    (line,) = [line for line in text.splitlines() if line.startswith("join: CoProcess")]
    assert "1: 100 % busy" in line and "220/s" in line and "(3.2 s behind)" in line
    assert "212.0 MiB of 1.0 GiB" in text or "212 MiB of 1.0 GiB" in text


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
@pytest.mark.parametrize("made", [held_back(), after_a_loss(), picture(name="航班" * 40)], ids=["held", "lost", "wide"])
def test_no_line_is_wider_than_the_terminal(width, made):
    if len(made["name"]) > 40:
        made["vertices"][2]["name"] = "航班" * 30
        made["taskmanagers"][0]["id"] = "worker-" + "1" * 80
        made["taskmanagers"][0]["heartbeat-age"] = 700_000
    view = view_of(with_answers(made), width)
    lines = text_of(view).splitlines()
    assert max(map(cells_of, lines)) <= width
    for wanted in ("Does it run?", "Who is ill?", "Busy", "Held back", JOB_ID):
        assert any(wanted in line for line in lines), wanted
    console = pytest.importorskip("rich.console")
    stream = io.StringIO()
    console.Console(file=stream, width=width, force_terminal=False).print(rich_of(view))
    drawn = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert [line for line in drawn if line] == [line for line in lines if line]


def test_who_is_held_back_is_seen_in_80_columns():
    text = text_of(view_of(with_answers(held_back()), 80))
    (line,) = [line for line in text.splitlines() if line.startswith("join: CoProcess")]
    assert line.split()[:3] == ["join:", "CoProcess", "2"] and "220/s" in line and "86 %" in line
    assert "212.0 MiB of 1.0 GiB" in text or "212 MiB of 1.0 GiB" in text


def of_columns():
    made = picture()
    window = made["vertices"][2]
    window["rates"] |= {"records_in": 500.0, "rows_in": 4_096_000.0, "rows_out": 0.0}
    window["totals"] |= {"records_in": 1_000, "rows_in": 8_192_000, "rows_out": 0}
    (operator,) = window["operators"]
    window["operators"] = [operator | {"records_in": 1_000, "rows_in": 8_192_000, "rows_out": None}]
    return made


def test_batches_of_columns_are_told_with_their_rows():
    text = text_of(view_of(with_answers(of_columns())))
    (line,) = [line for line in text.splitlines() if line.startswith("by airport")]
    assert "4.1 M rows/s (500 × 8.2 k)" in line and "24.0 k/s" in line
    text = text_of(ended_view_of(with_answers(of_columns())))
    (line,) = [line for line in text.splitlines() if line.startswith("by airport")]
    assert "8,192,000 rows in 1,000 batches" in line and "13,653" in line, "rows a second"


def test_a_failure_is_named_in_a_line():
    text = text_of(view_of(with_answers(after_a_loss())))
    assert "last failure, 31 s ago: TaskManagerLostError: task manager 'worker-1' was lost: its process" in text


def test_a_wide_job_does_not_flood_the_terminal():
    made = picture()
    made["vertices"] *= 20
    made["taskmanagers"] *= 40
    view = view_of(with_answers(made))
    assert [len(section.rows) for section in view.sections] == [TASKS_MAX, MANAGERS_MAX]
    assert view.notes == ["and 80 more tasks", "and 60 more task managers"]


def test_rich_draws_names_as_text():
    console = pytest.importorskip("rich.console")
    made = picture(name="[bold]flights[/bold]")
    stream = io.StringIO()
    console.Console(file=stream, width=200, force_terminal=False).print(rich_of(view_of(with_answers(made))))
    drawn = stream.getvalue()
    assert "[bold]flights[/bold]" in drawn and "Does it run?" in drawn and "worker-1" in drawn


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999, 1.0, 1.7, -1])
def test_bars_have_one_width(share):
    assert len(bar(share)) == len(bar(0.5)) or share in (1.7, -1)


def test_one_picture_is_printed(capsys):
    with page_server(picture()) as server:
        assert main(["top", f"{server.url}#/job/{JOB_ID}", "--once"]) == 0
    out = capsys.readouterr().out
    assert "✓ Does it run?            Running for 10 min" in out


def test_tools_get_all_of_the_picture_as_json(capsys):
    made = picture(name="\x1b[2Jgone")
    with page_server(made) as server:
        assert main(["top", server.url, "--once", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == with_answers(made) and out.count("\n") == 1 and "\x1b" not in out


def test_it_follows_the_job_to_its_end(capsys, monkeypatch):
    with page_server(picture()) as server:
        seen = []

        def wait(seconds):
            seen.append(seconds)
            if len(seen) == 1:
                server.status = 503
            else:
                server.status, server.picture = 200, picture(state="FINISHED", **{"end-time": NOW})

        monkeypatch.setattr(top_command.time, "sleep", wait)
        monkeypatch.setattr(top_command._follow, "__defaults__", (wait,))
        assert main(["top", server.url]) == 0
    out = capsys.readouterr().out
    assert out.count("a year of flights ·") == 3
    assert "connection lost: what you see is 0 s old" in out and out.rstrip().endswith("task managers") is False
    assert "✓ Does it run?            Finished" in out


def test_who_serves_no_job_is_named(capsys):
    with page_server(picture()) as server:
        url = server.url
        server.status = 404
        assert main(["top", url, "--once"]) == 1
        assert capsys.readouterr().err == "flinkbuf top: Job is not known here.\n"
        server.status, server.picture = 200, None
        with contextlib.suppress(Exception):
            assert main(["top", url, "--once"]) == 1
    capsys.readouterr()
    assert main(["top", url, "--once"]) == 1
    assert "no program serves a job at http://127.0.0.1:" in capsys.readouterr().err
    assert main(["top", "ftp://x", "--once"]) == 1
    assert "no address such as http://127.0.0.1:8081" in capsys.readouterr().err


# ---- tokens


class Silent:
    """What a job is to those who serve it; it has nothing but its picture."""

    def __init__(self, picture):
        self.picture = picture


@pytest.fixture
def server(monkeypatch):
    """One whose other end of a connection is nobody's that the system knows."""
    monkeypatch.setattr("flinkbuf.web.connections.user_of", lambda client, server: None)
    world = MasterWorld(pipeline())
    world.start().register_all()
    with contextlib.closing(JobServer()) as made:
        made.add(ServedJob(Silent(PictureMaker(world.job).make(1000))))
        yield made


def test_a_token_on_the_command_line_is_refused_with_the_way(capsys):
    for url in (
        f"http://127.0.0.1:1/?token=secret#/job/{JOB_ID}",
        "127.0.0.1:1/?token=secret",
        "http://:secret@localhost:1",
    ):
        assert main(["top", url, "--once"]) == 1
        said = capsys.readouterr().err
        assert "ps" in said and "--token-file FILE" in said and "secret" not in said


def test_the_token_comes_from_a_file_the_environment_or_who_is_asked(server, tmp_path, monkeypatch, capsys):
    url = f"127.0.0.1:{server.port}"
    assert main(["top", url, "--once"]) == 1
    assert "A token is needed" in capsys.readouterr().err
    file = tmp_path / "token"
    file.write_text(server.token + "\n")
    file.chmod(0o640)
    assert main(["top", url, "--once", "--token-file", str(file)]) == 1
    assert "mode 600" in capsys.readouterr().err
    file.chmod(0o600)
    assert main(["top", url, "--once", "--token-file", str(file)]) == 0
    monkeypatch.setenv("FLINKBUF_REST_TOKEN", server.token)
    assert main(["top", url, "--once"]) == 0
    monkeypatch.delenv("FLINKBUF_REST_TOKEN")
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(top_command, "getpass", lambda text: server.token)
    assert main(["top", url, "--once"]) == 0
    assert capsys.readouterr().out.count("Does it run?") == 3


def test_whoever_listens_at_the_port_next_is_sent_no_token(server, monkeypatch):
    ask = top_command.PictureClient(f"127.0.0.1:{server.port}", server.token)
    ask()
    ask()
    assert len(server._connections.open) == 1, "one connection for all"
    server.close()
    with socket.create_server(("127.0.0.1", server.port)) as thief:
        heard = []

        def listen():
            client, _ = thief.accept()
            heard.append(client.recv(10_000))
            client.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}")
            client.close()

        listening = threading.Thread(target=listen)
        listening.start()
        with pytest.raises(top_command.TokenNeededError, match="has ended: begin again"):
            ask()
        listening.join()
    assert (
        heard[0].startswith(b"GET /picture")
        and b"uthorization" not in heard[0]
        and server.token.encode() not in heard[0]
    )
    ask.close()


# ---- what would command the terminal

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n\u202e"


def test_names_and_failures_command_no_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    made = after_a_loss()
    made["name"] = made["vertices"][0]["name"] = f"name{ESCAPES}"
    made["taskmanagers"][0]["id"] = f"worker{ESCAPES}"
    made["exceptions"]["exceptionHistory"]["entries"][0]["message"] = f"record{ESCAPES}"
    with page_server(made) as server:
        assert main(["top", server.url, "--once"]) == 0
    out = capsys.readouterr().out
    assert "name\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\x0d\\x0a\\u202e" in out and "worker\\x1b" in out
    assert not set(out) & set(ESCAPES) - set("0;owned]m[2J31\n")


def test_what_a_server_says_of_an_error_commands_no_terminal(capsys):
    with page_server(picture()) as server:
        server.status, server.error = 404, f"Job{ESCAPES}"
        assert main(["top", server.url, "--once"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_without_rich_it_is_plain_text(capsys, monkeypatch):
    for name in ("rich.console", "rich.live", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    with page_server(picture()) as server:
        assert main(["top", server.url, "--once"]) == 0
    assert "Nowhere" in capsys.readouterr().out
