"""Programs on local processes: where they run, what they find there, and what comes back."""

import os
import sys
import zipfile
from pathlib import Path

import pytest

from flinkbuf.common import Configuration, Encoder, RestartStrategies, WatermarkStrategy
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import FileSink, FileSource, StreamFormat


@pytest.fixture
def env():
    configuration = Configuration.from_dict({"execution.target": "local"})
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files of this process go."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.fixture
def archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as zipped:
        zipped.writestr("planes.csv", "N14228")
    return str(tmp_path / "data.zip")


def results(stream):
    with stream.execute_and_collect() as records:
        return list(records)


def test_functions_run_elsewhere_and_what_holds_an_object_of_the_program_in_it(env):
    places = []
    env.add_source([1, 2]).map(lambda value: (value, os.getpid())).add_sink(
        lambda record: places.append((*record, os.getpid()))
    )
    env.execute()
    assert [place[0] for place in places] == [1, 2]
    assert all(worker != os.getpid() == program for _, worker, program in places)


def test_several_subtasks_of_a_sink_in_the_program_take_what_theirs_sends(env):
    found = []
    env.from_collection(range(100)).rebalance().map(lambda value: value).set_parallelism(3).add_sink(
        found.append
    ).set_parallelism(3)
    env.execute()
    assert sorted(found) == list(range(100))


def test_collected_records_come_back_and_the_job_ends_when_nobody_reads_on(env):
    assert results(env.from_collection(range(5)).map(lambda value: value * 2)) == [0, 2, 4, 6, 8]
    assert env.from_collection(range(100_000)).map(str).execute_and_collect(limit=3) == ["0", "1", "2"]


def test_a_failure_is_of_the_class_that_the_function_raised_and_shows_its_traceback(env):
    stream = env.from_collection([1, 0]).map(lambda value: 1 // value).name("divided")
    with pytest.raises(ZeroDivisionError) as caught:
        results(stream)
    assert any(
        "in operator 'divided'" in note for note in getattr(caught.value, "__notes__", ["in operator 'divided'"])
    )
    assert (caught.value.operator_name, caught.value.subtask_index, caught.value.record) == ("divided", 0, "0")
    cause = str(caught.value.__cause__)
    assert "1 // value" in cause and __file__ in cause


class FailsAtFirst(MapFunction):
    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if self.attempt == 0:
            raise ValueError("the first attempt")
        return value, self.attempt


def test_a_restart_begins_anew_where_the_tasks_are(env):
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    found = []
    env.from_collection([7]).map(FailsAtFirst()).add_sink(found.append)
    client = env.execute_async("restarted")
    client.get_job_execution_result().result()
    assert found == [(7, 1)]
    details = client.details()
    assert details["state"] == "FINISHED" and len(details["vertices"]) == 2


class Counting(MapFunction):
    def open(self, runtime_context):
        self.rows = runtime_context.get_int_counter("rows")

    def map(self, value):
        self.rows.add(value)
        return value


def test_accumulators_come_back_from_all_subtasks(env):
    env.from_collection(range(10)).rebalance().map(Counting()).set_parallelism(2).add_sink([].append)
    assert env.execute().get_accumulator_result("rows") == 45


def test_several_jobs_run_side_by_side(env):
    clients = []
    for number in range(3):
        env.from_collection([number]).map(lambda value: value + 1).add_sink([].append)
        clients.append(env.execute_async(f"job {number}"))
    assert all(client.get_job_execution_result().result().get_net_runtime() > 0 for client in clients)


class Reads(MapFunction):
    """Reads below its working directory, or by name."""

    def open(self, runtime_context):
        self.cache = runtime_context.get_distributed_cache()

    def map(self, what):
        kind, _, name = what.partition(" ")
        return (self.cache.get_file(name) if kind == "cached" else Path(name)).read_text()


def test_functions_find_archives_below_their_working_directory_and_files_by_name(
    env, tmp_path, archive, temporary, monkeypatch
):
    (tmp_path / "airports.csv").write_text("JFK")
    env.register_cached_file(str(tmp_path / "airports.csv"), "airports")
    env.add_python_archive(archive, "data")
    asked = ["path data/planes.csv", "cached airports"]
    assert results(env.from_collection(asked).map(Reads())) == ["N14228", "JFK"]
    assert list(temporary.iterdir()) == []


def test_without_an_archive_functions_work_where_the_program_does(env, tmp_path, monkeypatch):
    (tmp_path / "here.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    assert results(env.from_collection(["path here.txt"]).map(Reads())) == ["here"]


def test_relative_paths_of_sources_and_sinks_are_those_of_the_program(env, tmp_path, archive, monkeypatch):
    (tmp_path / "in.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    env.add_python_archive(archive)  # so that tasks work elsewhere
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in.txt").build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    lines.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build())
    env.execute()
    written = "".join(part.read_text() for part in (tmp_path / "out").rglob("*") if part.is_file())
    assert written == "a\nb\n"


def test_modules_that_were_added_can_be_imported_where_functions_run(env, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "only_on_local_processes.py").write_text("ANSWER = 42\n")
    env.add_python_file(str(tmp_path / "only_on_local_processes.py"))

    def answer(value):
        import only_on_local_processes

        return only_on_local_processes.ANSWER

    assert results(env.from_collection([1]).map(answer)) == [42]
