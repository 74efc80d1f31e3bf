"""Records one by one: maps, filters, partitioning, side outputs, unions, sources, declared types."""

from flinkbuf.common import Row, Types, WatermarkStrategy
from flinkbuf.datastream import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
)
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from matrix.program import program
from matrix.values import HUGE, HUGE_BYTES, TABLE, shown, value

NUMBERS = [(7 * number) % 50 for number in range(50)]
EVERY_VALUE = [name for name in TABLE for _ in range(2)]


def every_value():
    """Each value of the table, in two spellings where it has two."""
    return [value(name, place % 2) for place, name in enumerate(EVERY_VALUE)]


class Doubled(MapFunction):
    def open(self, runtime_context):
        self.factor = 2

    def map(self, value):
        return value * self.factor


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


class Times(FlatMapFunction):
    def flat_map(self, value):
        for _ in range(value % 3):
            yield value


class ByPlace(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class Sorted(ProcessFunction):
    """Threes and fives to outputs of their own, and both for fifteens."""

    THREES, FIVES = OutputTag("threes"), OutputTag("fives", Types.LONG())

    def process_element(self, value, ctx):
        if value % 3 == 0:
            yield self.THREES, {"number": value}
        if value % 5 == 0:
            yield self.FIVES, value
        if value % 3 and value % 5:
            yield value


class Timestamps(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


@program(lambda: [2 * number for number in NUMBERS])
def map_of_a_class(s):
    return s.records(NUMBERS).map(Doubled())


@program(lambda: [number for number in NUMBERS if number % 2])
def filter_by_truth(s):
    return s.records(NUMBERS).filter(Odd())


@program(lambda: [number for number in NUMBERS for _ in range(number % 3)])
def flat_map_that_often_yields_nothing(s):
    return s.records(NUMBERS).flat_map(Times())


@program(lambda: [number + 1 for number in NUMBERS for _ in range(2)], order_by=lambda value: 0, output_width=1)
def order_in_one_subtask(s):
    doubled = s.records(NUMBERS).flat_map(lambda value: [value, value]).set_parallelism(1)
    return doubled.map(s.stumble()).set_parallelism(1).map(lambda value: value + 1).set_parallelism(1)


@program(lambda: every_value())
def every_value_in_a_chain(s):
    return s.records(every_value()).map(lambda value: value)


@program(lambda: every_value())
def every_value_between_tasks(s):
    return s.records(every_value()).rebalance().map(s.stumble()).rebalance().map(lambda value: value)


@program(lambda: [[each, {"in": each}, (each, each)] for each in every_value()])
def every_value_inside_others(s):
    return s.records(every_value()).map(lambda value: [value, {"in": value}, (value, value)]).shuffle().map(_same)


@program(lambda: [HUGE_BYTES, 0, 3, None])
def a_huge_value(s):
    records = s.records([value(HUGE), b"", b"abc", None]).rebalance()
    return (
        records.map(lambda value: value and (value, 1)[0])
        .rebalance()
        .map(lambda value: (value and len(value)) or _none(value))
    )


def _none(value):
    return None if value is None else 0


def _same(value):
    return value


@program(lambda: [number + 1 for number in NUMBERS])
def every_partitioning(s):
    stream = s.records(NUMBERS).rebalance().map(_same).rescale().map(_same).shuffle().map(s.stumble()).rebalance()
    placed = stream.map(_same).partition_custom(ByPlace(), lambda value: value)
    return placed.map(lambda value: value + 1)


@program(lambda way: NUMBERS * way.width, avoids=["width"])
def broadcast_to_all_subtasks(s):
    return s.records(NUMBERS).broadcast().map(_same)


@program(lambda: [number * 2 for number in NUMBERS])
def widths_up_and_down(s):
    stream = s.records(NUMBERS).map(_same).set_parallelism(3).map(s.stumble()).set_parallelism(1)
    return stream.map(Doubled()).set_parallelism(2)


@program(
    lambda: {
        "rest": [number for number in NUMBERS if number % 3 and number % 5],
        "threes": [{"number": number} for number in NUMBERS if number % 3 == 0],
        "fives": [-number for number in NUMBERS if number % 5 == 0],
    }
)
def side_outputs(s):
    sorted_out = s.records(NUMBERS).process(Sorted())
    fives = sorted_out.get_side_output(Sorted.FIVES).map(lambda value: -value)
    return {"rest": sorted_out, "threes": sorted_out.get_side_output(Sorted.THREES), "fives": fives}


@program(
    lambda: [number for number in NUMBERS if number % 3 == 0 or number % 5 == 0 for _ in range(1 + (number % 15 == 0))]
)
def side_outputs_in_one_stream_again(s):
    sorted_out = s.records(NUMBERS).rebalance().process(Sorted())
    threes = sorted_out.get_side_output(Sorted.THREES).map(lambda value: value["number"], Types.LONG())
    return threes.union(sorted_out.get_side_output(Sorted.FIVES))


@program(lambda: NUMBERS + [number + 100 for number in NUMBERS] + NUMBERS)
def union_of_a_stream_with_itself(s):
    first, second = s.records(NUMBERS), s.records([number + 100 for number in NUMBERS])
    return first.union(second.rebalance().map(s.stumble()), first.map(_same))


@program(lambda: {"all": NUMBERS, "odd": [n for n in NUMBERS if n % 2], "doubled": [2 * n for n in NUMBERS if n % 2]})
def branches(s):
    numbers = s.records(NUMBERS).rebalance().map(_same)
    odd = numbers.filter(Odd())
    return {"all": numbers, "odd": odd, "doubled": odd.map(Doubled())}


@program(lambda: [number % 7 for number in range(200)], avoids=["move"])
def numbers_of_all_subtasks(s):
    source = NumberSequenceSource(0, 199)
    numbers = s.env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    return numbers.map(lambda value: value % 7).map(s.stumble())


@program(lambda: [(f"{number}", -number, None) for number in NUMBERS])
def declared_tuples(s):
    kind = Types.TUPLE([Types.STRING(), Types.LONG(), Types.NULLABLE(Types.INT())])
    return s.records(NUMBERS).map(lambda n: (str(n), -n, None), kind).rebalance().map(s.stumble(), kind)


@program(
    lambda: [Row(id=n, tags=[str(n)] * (n % 3), by={"k": n}, inner=Row(x=n / 2, y=None)) for n in NUMBERS],
)
def declared_rows(s):
    inner = Types.ROW_NAMED(["x", "y"], [Types.DOUBLE(), Types.STRING()])
    tags, by = Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.LONG())
    kind = Types.ROW_NAMED(["id", "tags", "by", "inner"], [Types.LONG(), tags, by, inner])
    rows = s.records(NUMBERS).map(lambda n: (n, [str(n)] * (n % 3), {"k": n}, (n / 2, None)), kind)
    return rows.rebalance().map(_same, kind)


@program(lambda: [(number, 10 * number) for number in NUMBERS])
def timestamps_stay_with_their_records(s):
    from matrix.sources import Timed

    timed = s.records(Timed((number, 10 * number) for number in NUMBERS)).rebalance().map(_same)
    return timed.flat_map(lambda value: [value]).process(Timestamps())


@program(lambda: [(number, 2 * number) for number in NUMBERS])
def batches_of_columns(s):
    kind = "n bigint"
    columns = s.records([(number,) for number in NUMBERS]).map(_same, kind)
    made = columns.rebalance().map_batches(
        lambda batch: {"n": batch["n"].to_numpy(), "m": batch["n"].to_numpy() * 2}, "n bigint, m bigint"
    )
    return made.map(tuple)


@program(lambda: sorted(shown(each) for each in every_value()))
def values_that_are_texts_already(s):
    return s.records(every_value()).rebalance().map(shown).disable_chaining().map(_same).start_new_chain()


@program(lambda: [])
def no_records(s):
    return s.records([]).rebalance().map(Doubled()).filter(Odd())
