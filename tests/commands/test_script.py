"""``python -m flinkbuf run``: scripts with settings from the command line."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import flinkbuf
from flinkbuf.commands import cli
from flinkbuf.runtime.driver import error_report

PROGRAM = """
import sys
from flinkbuf.datastream import StreamExecutionEnvironment

def third(value):
    return value // (value - 3)

env = StreamExecutionEnvironment.get_execution_environment()
if __name__ == "__main__":
    print(env.get_parallelism(), env.get_config().get_auto_watermark_interval(), sys.argv[1:])
    env.from_collection([int(text) for text in sys.argv[1:]]).map(third).name("thirds").print()
    env.execute("from a script")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def outcome(capfd, *arguments):
    """Exit code, standard output and error of a run in this process."""
    try:
        code = cli.main(["run", *arguments])
    except SystemExit as end:
        code = end.code
    return (code, *capfd.readouterr())


def test_a_script_is_run_as_the_main_program_with_its_own_arguments_and_our_defaults(script, capfd):
    before = (sys.argv, list(sys.path), sys.modules["__main__"], os.environ["FLINKBUF_PROPERTIES"])
    arguments = ["-p", "3", "-t", "embedded", "-D", "pipeline.auto-watermark-interval=7 ms", script, "4", "5"]
    code, out, _ = outcome(capfd, *arguments)
    assert code == 0 and out.splitlines()[0] == "3 7 ['4', '5']"
    assert sorted(line.partition("> ")[2] for line in out.splitlines()[1:]) == ["2", "4"]
    assert (sys.argv, sys.path, sys.modules["__main__"], os.environ["FLINKBUF_PROPERTIES"]) == before


def test_a_script_finds_the_modules_beside_it(tmp_path, capfd):
    (tmp_path / "beside_the_script.py").write_text("ANSWER = 42\n")
    (tmp_path / "asks.py").write_text("import beside_the_script\nprint(beside_the_script.ANSWER, __file__)\n")
    code, out, _ = outcome(capfd, str(tmp_path / "asks.py"))
    assert (code, out) == (0, f"42 {tmp_path / 'asks.py'}\n")


def test_what_a_user_s_function_raised_comes_first(script, capfd):
    code, _, error = outcome(capfd, "-p", "1", "--no-progress", script, "4", "3")
    lines = error.splitlines()
    assert code == 1 and lines[0] == "Traceback (most recent call last):"
    assert f'File "{script}", line 6, in third' in lines[1]
    assert "return value // (value - 3)" in lines[2]
    assert "ZeroDivisionError" in error and "in operator 'thirds'" in error and "with the record 3" in error
    after = error.partition("The job was started here:")[2]
    assert "line 12, in <module>" in after and "env.execute" in after
    assert "flinkbuf/streaming" not in error and "flinkbuf/commands/run.py" not in error


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_python_alone_shows_the_same(script, target):
    environment = {**os.environ, "FLINKBUF_PROPERTIES": f"execution.target: {target}; parallelism.default: 1"}
    command = [sys.executable, script, "4", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    files = re.findall(r'^  File "(.*)", line', done.stderr, re.MULTILINE)
    assert (done.returncode, files) == (1, [script, script]), done.stderr
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "\nZeroDivisionError: integer division or modulo by zero\nin operator 'thirds' of task " in done.stderr
    assert done.stderr.index("The job was started here:") > done.stderr.index("with the record 3")


def test_what_was_raised_from_our_own_code_only_is_not_shown(tmp_path):
    (tmp_path / "locks.py").write_text(
        "import threading\n"
        "from flinkbuf.datastream import StreamExecutionEnvironment\n"
        "lock = threading.Lock()\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(lambda value: lock.locked()).print()\n"
        "env.execute()\n"
    )
    environment = {**os.environ, "FLINKBUF_PROPERTIES": "execution.target: local"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "locks.py")], env=environment, capture_output=True, text=True, timeout=60
    )
    assert len(re.findall('^  File "', done.stderr, re.MULTILINE)) == 1, done.stderr
    assert "cannot pickle '_thread.lock' object" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise SystemExit(7)", 7),
        ("import sys; sys.exit()", None),
        ("1 // 0", 1),
        ("raise KeyboardInterrupt", 130),
        ("def broken(:", 1),
    ],
)
def test_the_exit_code_is_that_of_the_script(tmp_path, capfd, text, expected):
    (tmp_path / "exits.py").write_text(text)
    assert outcome(capfd, str(tmp_path / "exits.py"))[0] == expected


def test_an_error_of_the_script_itself_is_shown_as_python_does(tmp_path, capfd):
    (tmp_path / "wrong.py").write_text("from flinkbuf.common import Configuration\nConfiguration.from_dict(1)\n")
    _, _, error = outcome(capfd, str(tmp_path / "wrong.py"))
    assert "line 2, in <module>" in error and "AttributeError" in error and "script.py" not in error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing.py"], "there is no Python file 'nothing.py'"),
        (["-p", "0", "SCRIPT"], "the parallelism must be at least 1, got 0"),
        (["-t", "yarn", "SCRIPT"], "invalid choice: 'yarn'"),
        (["-D", "parallelism.default", "SCRIPT"], "it must be KEY=VALUE"),
        (["-D", "heartbeat.interval=soon", "SCRIPT"], "Could not parse value 'soon' for key 'heartbeat.interval'"),
        (["-D", "rest.token=an-own-token-of-mine", "SCRIPT"], "seen by every user of this machine (ps)"),
        (["-D", "rest.token=an-own-token-of-mine", "SCRIPT"], "-D rest.token-file=FILE"),
        (["-D", "rest.token-file=nowhere", "SCRIPT"], "rest.token-file: [Errno 2]"),
        (["-D", "execution.runtime-mode=NIGHTLY", "SCRIPT"], "it is one of STREAMING, BATCH, AUTOMATIC"),
    ],
)
def test_a_wrong_command_line_is_refused_before_the_script_runs(script, capfd, arguments, text):
    code, out, error = outcome(capfd, *(script if each == "SCRIPT" else each for each in arguments))
    assert (code, out) == (2, "") and text in error


def test_what_a_record_would_command_the_terminal_is_shown(tmp_path, capfd):
    text = 'raise ValueError("record \\x1b]0;owned\\x07\\x9b2J\\r")'
    lines = ["from flinkbuf.datastream import StreamExecutionEnvironment", "def fail(value):", f"    {text}"]
    lines.append("env = StreamExecutionEnvironment.get_execution_environment()")
    lines.append("env.from_collection([1]).map(fail).print()")
    (tmp_path / "inside.py").write_text("\n".join([*lines, "env.execute()"]))
    (tmp_path / "outside.py").write_text(text)
    for name in ("inside.py", "outside.py"):
        code, _, error = outcome(capfd, str(tmp_path / name))
        assert code == 1 and r"ValueError: record \x1b]0;owned\x07\x9b2J\x0d" in error
        assert not set("\x1b\x07\x9b\r") & set(error)


def test_help_says_what_there_is(capfd):
    code, out, _ = outcome(capfd, "--help")
    assert code == 0
    for text in ("-p N", "--target {embedded,local,spark}", "-D KEY=VALUE", "--no-progress", "exit codes", "examples"):
        assert text in out


def test_settings_reach_processes_that_the_script_starts(tmp_path, capfd):
    inner = "import os; print(os.environ['FLINKBUF_PROPERTIES'])"
    (tmp_path / "starts.py").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])\n")
    _, out, _ = outcome(capfd, "-p", "2", "-D", "pipeline.name=a;b", str(tmp_path / "starts.py"))
    assert "parallelism.default: 2" in out.splitlines() and "pipeline.name: a;b" in out.splitlines()
    assert "execution.target: embedded" in out  # what was there before


def test_a_job_of_a_process_is_cancelled_by_ctrl_c(tmp_path):
    (tmp_path / "endless.py").write_text(
        "import itertools\n"
        "from flinkbuf.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.add_source(itertools.count).map(lambda value: value or print('runs', flush=True)).print()\n"
        "env.execute()\n"
    )
    arguments = [sys.executable, "-m", "flinkbuf", "run", "-p", "1", "-t", "embedded", str(tmp_path / "endless.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, **pipes) as process:
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error


def test_frames_of_all_files_of_the_package_are_left_out():
    package = Path(flinkbuf.__file__).parent
    mine = '  File "/home/me/flinkbuf/program.py", line 6, in third\n    return 1 // value\n           ~~^^~~~\n'
    for path in package.rglob("*.py*"):
        if path.suffix in (".py", ".pyx"):
            frame = f'  File "/there/{path.relative_to(package.parent)}", line 1, in ours\n    ours()\n    ^^^^^^\n'
            assert error_report._FRAME_OF_OURS.sub("", frame + mine + frame) == mine, path


LOGS = """
import logging
from flinkbuf.datastream import StreamExecutionEnvironment

log = logging.getLogger("flights")
log.warning("before the job")

def look(value):
    log.warning("seen %d", value, extra={"city": "Oslo"})
    if value == 2:
        log.warning("\\x1b[2J", exc_info=ValueError("no number"))
    return value

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(look).name("look").print()
env.execute("from a script")
"""


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_program_and_tasks_log_lines_of_json_with_their_fields(tmp_path, target):
    script = tmp_path / "logs.py"
    script.write_text(LOGS)
    command = [sys.executable, "-m", "flinkbuf", "run", "-p", "1", "-t", target, "-D", "log.format=JSON", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    before, *seen = map(json.loads, ended.stderr.splitlines())
    assert before["message"] == "before the job" and "job" not in before
    assert [line["message"] for line in seen] == ["seen 1", "seen 2", "\x1b[2J"]
    for line in seen:
        assert (line["job"], line["subtask"], line["attempt"]) == ("from a script", 0, 0)
        assert re.fullmatch("[0-9a-f]{32}", line["job_id"]) and re.fullmatch("[0-9a-f]{32}", line["vertex"])
        assert "look" in line["task"] and line["level"] == "WARNING" and line["host"]
        assert (line["process"] == before["process"]) == (target == "embedded")
    assert seen[0]["city"] == "Oslo" and "ValueError: no number" in seen[2]["exception"]
