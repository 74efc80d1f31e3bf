"""What is given to PyFlink, and what the comparison makes of it; PyFlink itself is not run here."""

import ast
import math

import pytest
from nexmark import compare_pyflink, on_pyflink


def test_the_programs_of_pyflink_differ_by_their_imports_and_two_phases(tmp_path):
    package = on_pyflink.translated(tmp_path)
    for name in on_pyflink.QUERIES:
        theirs = (package / "queries" / f"{name}.py").read_text()
        ours = (on_pyflink.HERE / "queries" / f"{name}.py").read_text()
        assert theirs.replace("pyflink", "flinkbuf") == ours.replace("pyflink", "flinkbuf").replace(
            ", two_phase=True", ""
        )
        imported = [node.module for node in ast.walk(ast.parse(theirs)) if isinstance(node, ast.ImportFrom)]
        assert not [each for each in imported if each.startswith("flinkbuf")]


def test_a_command_has_all_options():
    options = compare_pyflink.parsed(["q0", "--parallelism", "1"])
    command = compare_pyflink.command_of(options, "q0", 500, "threads", rate=100)
    theirs = on_pyflink.parsed(command[2:])
    assert (theirs.query, theirs.events, theirs.rate, theirs.parallelism) == ("q0", 500, 100, 1)
    assert theirs.set == compare_pyflink.SETTINGS["threads"] and theirs.results is None


def rates(per_s):
    return {"events_per_s": per_s, "events_per_cpu_s": per_s / 2, "peak_bytes": 1e6}


def test_the_faster_mode_counts(monkeypatch):
    found = {"processes": rates(math.nan), "threads": rates(20e3)}
    monkeypatch.setattr(compare_pyflink, "pyflink_rates", lambda options, name, mode: found[mode])
    monkeypatch.setattr(compare_pyflink.compare, "run_ours", lambda *arguments: [])
    monkeypatch.setattr(compare_pyflink.compare, "summarized", lambda rounds: rates(1e6))
    ours, theirs, mode = compare_pyflink.measured(compare_pyflink.parsed(["q0"]), "q0")
    assert compare_pyflink.line_of("q0", ours, theirs, mode) == "| q0 | 1,000 | 20.0 | 50 | 500 | 10.0 | 50 | threads |"


def test_without_pyflink_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(compare_pyflink, "PYFLINK", tmp_path)
    monkeypatch.setattr("sys.argv", ["compare_pyflink", "q0"])
    with pytest.raises(SystemExit, match=r"make build/pyflink/\.ready"):
        compare_pyflink.main()
