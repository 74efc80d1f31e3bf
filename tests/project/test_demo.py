"""The demo finds in the flights what a second, independent way of counting finds."""

import csv
import datetime
import functools
import io
import zipfile
from argparse import Namespace
from collections import Counter, defaultdict
from itertools import groupby, pairwise

import pytest

from flinkbuf.commands import cli
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.demo import analysis as demo_analysis
from flinkbuf.demo import flights as demo
from flinkbuf.demo import stream as demo_stream

NAMES = demo_analysis.FIELDS


def number(text):
    return None if text == "NA" else int(text)


@pytest.fixture(scope="module")
def year():
    """All flights as dicts, read by Python's csv alone."""
    with zipfile.ZipFile(demo_analysis.data_folder() / "flights.csv.zip") as archive:
        with io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8") as text:
            return [row for row in csv.DictReader(text) if row["tailnum"] != "NA"]


@functools.cache
def seconds_of(time_hour):
    hour = datetime.datetime.strptime(time_hour, "%Y-%m-%dT%H:%M:%SZ")
    return int(hour.replace(tzinfo=datetime.timezone.utc).timestamp())


def as_flight(row):
    """A row of the file as the tuple that the demo moves."""
    values = {**row, "time_hour": seconds_of(row["time_hour"])}
    texts = ("carrier", "tailnum", "origin", "dest", "time_hour")
    return tuple(values[name] if name in texts else number(values[name]) for name in NAMES)


@pytest.fixture(scope="module")
def years(year):
    return list(demo_analysis.analyse(map(as_flight, year)))


def left_at(row):
    """When it left, from the scheduled local time: the demo starts from the hour in UTC."""
    scheduled = datetime.datetime(2013, int(row["month"]), int(row["day"]), int(row["hour"]), int(row["minute"]))
    return scheduled + datetime.timedelta(minutes=int(row["dep_delay"]))


@pytest.mark.long
def test_every_flight_is_counted_once(year, years):
    assert len(year) == 334_264
    flown, cancelled = Counter(), Counter()
    for row in year:
        (cancelled if row["dep_delay"] == "NA" else flown)[row["tailnum"], row["carrier"]] += 1
    assert {(y.tailnum, y.carrier): y.departures for y in years if y.departures} == flown
    assert {(y.tailnum, y.carrier): y.cancelled for y in years if y.cancelled} == cancelled


@pytest.mark.long
def test_carried_delay_and_chains_are_those_of_a_walk_by_hand(year, years):
    by_day = defaultdict(list)
    for row in year:
        if row["dep_delay"] != "NA":
            by_day[row["tailnum"], row["month"], row["day"]].append(row)
    follow_ups, delay, carried, chains = Counter(), Counter(), Counter(), []
    for (tailnum, _, _), rows in by_day.items():
        rows.sort(key=left_at)
        delays = [int(row["dep_delay"]) for row in rows]
        for before, now, row in zip(delays, delays[1:], rows[1:], strict=False):
            follow_ups[row["carrier"]] += 1
            delay[row["carrier"]] += max(now, 0)
            carried[row["carrier"]] += max(0, min(before, now))
        for is_late, chain in groupby(delays, lambda minutes: minutes >= 15):
            minutes = list(chain)
            if is_late and len(minutes) > 1:
                chains.append((sum(minutes), tailnum, minutes))
    carriers = {c.carrier: c for c in demo_analysis.by_carrier(years)}
    assert {code: c.follow_ups for code, c in carriers.items() if c.follow_ups} == follow_ups
    assert {code: c.delay for code, c in carriers.items()} == {code: delay[code] for code in carriers}
    assert {code: c.carried for code, c in carriers.items()} == {code: carried[code] for code in carriers}
    found = [
        (minutes, tailnum, [d.delay for d in chain])
        for y in years
        for minutes, tailnum, chain in [(minutes, y.tailnum, chain) for minutes, chain in y.chains]
    ]
    assert sorted(found) == sorted(chains)
    assert demo_analysis.worst_chains(years, 1)[0][:2] == max(chains)[:2] == (834, "N836UA")


@pytest.mark.long
def test_gaps_are_the_hours_between_departures_also_over_the_change_of_clocks(year, years):
    aircraft = "N328AA"
    rows = sorted((row for row in year if row["tailnum"] == aircraft and row["dep_delay"] != "NA"), key=left_at)
    assert len(rows) > 300
    eastern = [(datetime.datetime(2013, 3, 10, 2), 0), (datetime.datetime(2013, 11, 3, 2), -1)]

    def in_utc(local):
        is_summer = eastern[0][0] <= local < eastern[1][0]
        return local + datetime.timedelta(hours=4 if is_summer else 5)

    hours = Counter()
    for before, now in pairwise(rows):
        scheduled = [in_utc(left_at(row) - datetime.timedelta(minutes=int(row["dep_delay"]))) for row in (before, now)]
        delays = [datetime.timedelta(minutes=int(row["dep_delay"])) for row in (before, now)]
        hours[int((scheduled[1] + delays[1] - scheduled[0] - delays[0]).total_seconds() // 3600)] += 1
    found = Counter()
    for y in years:
        if y.tailnum == aircraft:
            found.update(dict(y.gaps))
    assert found == hours


def test_a_chain_ends_with_the_day_and_with_a_departure_in_time():
    def flight(day, hour, delay, tailnum="N1"):
        values = dict.fromkeys(NAMES, 0) | {
            "year": 2013,
            "month": 5,
            "day": day,
            "dep_delay": delay,
            "carrier": "B6",
            "tailnum": tailnum,
            "origin": "JFK",
            "dest": "BOS",
            "hour": hour,
            "time_hour": (day * 24 + hour) * 3600,
        }
        return tuple(values[name] for name in NAMES)

    flights = [
        flight(1, 8, 20),
        flight(1, 12, 40),
        flight(1, 16, 5),
        flight(1, 20, 60),
        flight(2, 8, 15),
        flight(2, 11, 15),
        flight(2, 20, None),
    ]
    (found,) = demo_analysis.analyse(reversed(flights))
    assert [(minutes, [d.delay for d in chain]) for minutes, chain in found.chains] == [(60, [20, 40]), (30, [15, 15])]
    assert (found.departures, found.cancelled, found.follow_ups) == (6, 1, 4)
    assert (found.delay, found.carried) == (40 + 5 + 60 + 15, 20 + 5 + 5 + 15)


def test_the_median_gap_is_that_of_all_gaps():
    carrier = demo_analysis.CarrierYear("B6", 1, 5, 0, 0, 0, 0, Counter({1: 2, 5: 2, 9: 1}))
    assert carrier.median_gap == 5


@pytest.mark.long
@pytest.mark.spark
def test_all_ways_find_the_same(spark):
    with demo.unpacked_flights() as csv_file:
        flights = demo.read_flights(spark, csv_file, rows=30_000)
        outcome = demo.run(flights, 4, lambda text: None, rounds=1)
        expected = sorted(demo_analysis.analyse(flights.collect()))
    assert outcome.is_equal
    assert list(outcome.job_seconds) == ["fb.exchange", "fb.exchange, pipelined", "partitionBy"]
    assert outcome.years == expected
    assert 29_000 < outcome.flights < 30_000  # without those that have no aircraft


@pytest.mark.long
@pytest.mark.spark
def test_the_result_is_kept_and_read_back(spark, years, tmp_path):
    console_module = pytest.importorskip("rich.console", reason="the report needs the extra 'demo'")
    from flinkbuf.demo.kept import keep, print_kept

    path = tmp_path / "aircraft-years"
    departures = Counter()
    for year in years:
        departures[year.tailnum] += year.departures
    for part in (years[:10], years):  # a second run replaces what the first one kept
        outcome = keep(spark, part, path)
        assert outcome.is_equal
        assert outcome.records == len(part)
    assert outcome.departures == departures[outcome.tailnum] == max(departures.values())
    assert 0 < outcome.subpartition_size < outcome.size / 4
    assert spark.read.format("flinkbuf").load(str(path)).count() == len(years)
    out = io.StringIO()
    print_kept(console_module.Console(file=out, width=400), outcome)
    assert f"{len(years):,} aircraft-years in {path}, 16 subpartitions" in out.getvalue()
    assert "is equal" in out.getvalue()


@pytest.mark.long
def test_the_report_fits_the_terminal_and_the_picture_is_drawn(years, tmp_path):
    console_module = pytest.importorskip("rich.console", reason="the report needs the extra 'demo'")
    pytest.importorskip("matplotlib", reason="the picture needs the extra 'demo'")
    from flinkbuf.demo.report import draw, print_report

    seconds = {"fb.exchange": 1.0, "fb.exchange, pipelined": 1.5, "partitionBy": 3.0}
    outcome = demo_analysis.Outcome(334_264, sorted(years), True, seconds, seconds, 2)
    assert draw(outcome, tmp_path / "flights.png").read_bytes().startswith(b"\x89PNG")
    for width in (80, 120):
        out = io.StringIO()
        print_report(console_module.Console(file=out, width=width), outcome, Namespace(cores=2))
        for text in (
            "334,264 flights of 4,043 aircraft",
            "N836UA",
            "3.0 ×",
            "2.0 ×",
            "fb.exchange, pipelined",
            "are equal",
        ):
            assert text in out.getvalue()
        assert max(map(len, out.getvalue().splitlines())) <= width


@pytest.fixture(scope="module")
def flights_of_march(year):
    """The flights of one month as the demo's stream reads them."""
    rows = [row for row in year if row["month"] == "3" and row["dep_delay"] != "NA"]
    rows.sort(key=lambda row: (row["time_hour"], int(row["minute"])))
    return [as_departure(row) for row in rows]


def as_departure(row):
    left = seconds_of(row["time_hour"]) // 60 + int(row["minute"]) + int(row["dep_delay"])
    texts = (row["tailnum"], row["origin"], row["dest"])
    return (left, int(row["dep_delay"]), row["carrier"], int(row["flight"]), *texts, number(row["air_time"]))


def test_the_stream_finds_what_a_loop_finds(flights_of_march):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    found = demo_stream.results_of(env.from_collection(flights_of_march)).execute_and_collect()
    assert sorted(map(tuple, found)) == sorted(demo_stream.follow(flights_of_march))


def test_the_loop_of_the_stream_counts_every_flight_once(flights_of_march):
    results = list(demo_stream.follow(flights_of_march))
    kinds = Counter(result[0] for result in results)
    assert sum(result[3] for result in results if result[0] == "hour") == len(flights_of_march)
    aircraft = {flight[4] for flight in flights_of_march}
    assert kinds["trip"] + kinds["impossible"] == len(flights_of_march) - len(aircraft)
    assert kinds["parked"] >= len(aircraft)  # each one once, when the data end


def test_an_aircraft_that_leaves_too_early_is_impossible_and_one_that_stays_away_is_parked():
    def flight(minute, air_time=100):
        return minute, 0, "B6", 1, "N1", "JFK", "BOS", air_time

    week = 7 * 24 * 60
    flights = [
        flight(0),
        flight(159),
        flight(319),
        flight(319 + week),
        flight(320 + 2 * week, None),
        flight(2 * week + 321),
    ]
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    found = [tuple(each) for each in demo_stream.results_of(env.from_collection(flights)).execute_and_collect()]
    aircraft = sorted((each for each in found if each[0] != "hour"), key=lambda each: each[2])
    assert [(kind, away) for kind, _, _, away, _, _ in aircraft] == [
        ("impossible", 159),
        ("trip", 160),
        ("trip", week),
        ("parked", 319 + week),
        ("trip", week + 1),
        ("trip", 1),
        ("parked", 2 * week + 321),
    ]


@pytest.mark.long
@pytest.mark.spark
def test_the_stream_on_spark_finds_the_same(spark, monkeypatch):
    from flinkbuf.demo import stream_kill
    from flinkbuf.demo.stream_job import departures, run_stream

    monkeypatch.setattr(stream_kill, "CHECKPOINT_EVERY_MS", 50)  # killed early: these rows do not last for long
    monkeypatch.setattr(stream_kill, "CHECKPOINTS_BEFORE", 1)
    with demo.unpacked_flights() as csv_file:
        outcome = run_stream(departures(spark, csv_file, demo.FILE_SCHEMA, 2, rows=120_000), 2)
    assert outcome.is_equal and outcome.columns.is_equal and outcome.query.is_equal
    assert outcome.query.batches == 4
    assert outcome.query.trips == sum(result[0] in ("trip", "impossible") for result in outcome.results)
    assert 110_000 < outcome.flights < 120_000
    assert {result[0] for result in outcome.results} == {"hour", "trip", "parked", "impossible"}
    kill = outcome.kill
    assert kill.is_equal
    assert kill.process_id and kill.checkpoint and kill.checkpoints > kill.checkpoint
    assert kill.after < kill.after + kill.recovery < kill.seconds


def test_the_report_of_the_stream_fits_the_terminal_and_its_picture_is_drawn(flights_of_march, tmp_path):
    console_module = pytest.importorskip("rich.console", reason="the report needs the extra 'demo'")
    pytest.importorskip("matplotlib", reason="the picture needs the extra 'demo'")
    from flinkbuf.demo.stream_kill import KillOutcome
    from flinkbuf.demo.stream_report import ColumnOutcome, QueryOutcome, StreamOutcome, draw_stream, print_stream_report

    kill = KillOutcome(4711, 1.5, 3, 0.4, 6.0, 12, True)
    found = list(demo_stream.follow(flights_of_march))
    query = QueryOutcome(5.0, 4, 26_814, True)
    outcome = StreamOutcome(found, len(flights_of_march), 2.0, True, ColumnOutcome(1.0, True), kill, query)
    assert draw_stream(outcome, tmp_path / "stream.png").read_bytes().startswith(b"\x89PNG")
    for width in (80, 120):
        out = io.StringIO()
        print_stream_report(console_module.Console(file=out, width=width), outcome)
        for text in (
            "The worst hours",
            "Impossible flights",
            "are equal",
            "the same hours",
            "worker 4711",
            "from checkpoint 3",
            "26,814 trips, each of them once",
        ):
            assert text in " ".join(out.getvalue().split())
        assert max(map(len, out.getvalue().splitlines())) <= width


def test_the_command_line_knows_its_commands(capsys):
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out.startswith("flinkbuf 0.")
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--help"])
    assert stop.value.code == 0
    assert "--cores" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["nonsense"])
