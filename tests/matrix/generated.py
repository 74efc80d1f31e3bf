"""Programs drawn by hypothesis, with the records that a plain model says they give.

A program is a list of steps, each of which makes streams of earlier ones. A step (`Step`) is a line of code and a
function over lists of ``(record, timestamp)``. Records are ``(key, number, payload)`` throughout, so every step fits
every stream, but for what would hang on the order in which things meet. Of each stream the generator knows

* ``is_ordered``: its records, one subtask's, are in one order whatever the way. Rolling results and windows by count
  need that, and in a batch job, which brings the records of a key by time, different times.
* ``is_timed``: its timestamps are determined, and none is behind the watermark. What goes by event time needs that.
* ``is_late``: it has a script to the letter, with records behind the watermark.
"""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from matrix import functions
from matrix.models import LateWindows, by_time, grouped, in_counts, in_fixed_windows, in_sessions, rolled
from matrix.program import Program
from matrix.sources import RECORD, WATERMARK
from matrix.values import HUGE, KEYS, TABLE, shown, value
from matrix.ways import CALM, HASH_SEEDS, KILL, MOVE, RAISE, Way

MOST_STEPS = 5
MOST_RECORDS = 12
MOST_OF_A_STREAM = 300
END = functions.END
A_WATERMARK = None  # stands for a record in lists of late streams


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known of a stream."""

    is_ordered: bool = False
    is_timed: bool = False
    is_late: bool = False
    has_own_times: bool = False  # no two records have the same
    size: int = 0  # how many records there are at most


@dataclasses.dataclass
class Step:
    """One line of a program.

    Parameters
    ----------
    code : str
        An expression of the streams ``{0}``, ``{1}``, …; ``{uid}`` begins the uids of operators within it.
    inputs : list of int
    model : callable
        Given the way and a list of ``(record, timestamp)`` for each input; returns a list for each output.
    kinds : list of Kind
        Of its outputs.
    tag : str
        The name of the OutputTag of its second output.
    """

    code: str
    inputs: list[int]
    model: Callable[..., list[Any]]
    kinds: list[Kind]
    tag: str = ""
    is_operator: bool = True


class Drawn:
    """A program: its steps, its code, its model."""

    def __init__(self, steps):
        self.steps = steps
        self.used = {number for step in steps for number in step.inputs}

    def code(self):
        """The program as Python."""
        lines, number = ["def program(s):"], 0
        for step in self.steps:
            if step.tag:
                lines.append(f'    late{number} = OutputTag("{step.tag}")')
            code = step.code.format(*(f"s{each}" for each in step.inputs), tag=f"late{number}", uid=f"t{number}")
            uid = f'.uid("s{number}")' if step.is_operator else ""
            lines.append(f"    s{number} = {code}{uid}")
            if step.tag:
                place = ".set_parallelism(1)" if step.kinds[1].is_late else ""
                lines.append(f"    s{number + 1} = s{number}.get_side_output(late{number}){place}")
            number += len(step.kinds)
        outputs = ", ".join(f'"s{each}": s{each}' for each in self.outputs())
        return "\n".join([*lines, f"    return {{{outputs}}}", ""])

    def outputs(self):
        """The numbers of the streams that nothing else reads, and each third of the others: they are branches."""
        count = sum(len(step.kinds) for step in self.steps)
        return [number for number in range(count) if number not in self.used or number % 3 == 2]

    def records(self, way):
        """What the model says of each output."""
        streams = []
        for step in self.steps:
            given = [copy.deepcopy(streams[number]) for number in step.inputs]
            streams += step.model(way, *given)
        return {
            f"s{number}": [record for record, _ in streams[number] if record is not A_WATERMARK]
            for number in self.outputs()
        }

    def program(self):
        """The program as the runner takes it."""
        avoids = {"unaligned"} if any(kind.is_late for step in self.steps for kind in step.kinds) else set()
        return Program("generated", None, self.records, None, frozenset(avoids))


def from_code(code):
    """A program of its code; its model stays where it was drawn."""
    names = {name: getattr(functions, name) for name in functions.__all__}
    exec(compile(code, "<generated>", "exec"), names)
    return Program("generated", names["program"], None)


# ---- what can be drawn


def each(function):
    """The model of a step that makes some records of each record, and leaves watermarks alone."""

    def model(way, stream):
        made = []
        for record, at in stream:
            made += [(record, at)] if record is A_WATERMARK else [(one, at) for one in function(record)]
        return [made]

    return model


def without_watermarks(stream):
    return [pair for pair in stream if pair[0] is not A_WATERMARK]


def of_keys(stream):
    """(key, its pairs) of a stream."""
    return grouped(without_watermarks(stream), lambda pair: pair[0][0])


def key_by_key(function, at_end=False):
    """The model of a step that makes ``(number, payload)`` pairs of all records of a key."""

    def model(way, stream):
        made = []
        for key, pairs in of_keys(stream):
            made += [((key, *result), END) for result in function([record for record, _ in pairs])]
        return [made]

    return model


def latest(records):
    return [max(((number, payload) for _, number, payload in records), key=lambda each: (each[0], shown(each[1])))]


def seen(records):
    counts = {}
    for _, number, _ in records:
        counts[number] = counts.get(number, 0) + 1
    return [(sum(number for _, number, _ in records), counts)]


def gathered_of(records):
    payloads = sorted((payload for _, _, payload in records), key=shown)
    return [(len(payloads), payloads)]


def total(records):
    return sum(number for _, number, _ in records)


KEYED = {
    "Counted": lambda records: [(number, None) for number in range(1, 1 + len(records))],
    "Summed": lambda records: [(total(records), None)],
    "Averaged": lambda records: [(total(records), len(records))],
    "Gathered": gathered_of,
    "Latest": latest,
    "Remembered": seen,
    "Firsts": lambda records: [(0, found[0][2]) for _, found in grouped(records, lambda record: record[2])],
}


def add(one, other):
    return one[0], one[1] + other[1], min(one[2], other[2], key=shown)


def wrapped(kind):
    wrap = functions.Wrap(kind)
    return lambda record: [(record[0], record[1], wrap.wrapped(*record))]


def changed(what):
    def change(record):
        payload = copy.deepcopy(record[2])
        if type(payload) is list:
            payload = [*payload, what]
        elif type(payload) is dict:
            payload = {**payload, "changed": what}
        elif type(payload) is set:
            payload = payload | {what}
        return [(record[0], record[1], payload)]

    return change


def answered(record):
    key, number, payload = record
    return {3: [], 0: [record, (key, number + 1, copy.deepcopy(payload))]}.get(number % 4, [record])


def bucketed(width):
    def model(way, stream):
        made = []
        for key, pairs in of_keys(stream):
            for last, found in grouped(pairs, lambda pair: pair[1] - pair[1] % width + width - 1):
                sums = total([record for record, _ in found])
                made.append(((key, sums, (last, len(found))), last))
        return [made]

    return model


def rolling(make):
    """The model of a rolling result: of each record, or in a batch job of each key."""

    def model(way, stream):
        made = []
        for _, pairs in of_keys(stream):
            records = [record for record, _ in (by_time(pairs) if way.is_batch else pairs)]
            results = rolled(records, make)
            made += [(result, None) for result in (results[-1:] if way.is_batch else results)]
        return [made]

    return model


def contents(key, window, records, how):
    """What a window gives of its records."""
    payloads = sorted((payload for _, _, payload in records), key=shown)
    if how in ("process(Contents())", "apply(Applied())"):
        return key, total(records), (*window, payloads)
    result = (key, total(records), payloads[0] if "Add" in how else len(records))
    return (*result[:2], (*window, result[2])) if "WithWindow" in how else result


HOW = [
    "process(Contents())",
    "apply(Applied())",
    "reduce(Add())",
    "aggregate(Tally())",
    "reduce(Add(), WithWindow())",
    "aggregate(Tally(), WithWindow())",
    "aggregate(TallyIntoFirst())",
    "aggregate(TallyIntoSecond())",
]
# Whether records are put together before they are sent. A job may begin one way, and go on the other way.
TWO_PHASE = ["False", "True", "True", "s.is_restored", "not s.is_restored"]


def with_phase(how, two_phase):
    """A call that gathers the records of a window, with the phase said."""
    return f"{how[:-1]}, two_phase={two_phase})"


def is_gathering(how):
    return how.startswith(("reduce", "aggregate"))


def windowed(find, how):
    def model(way, stream):
        made = []
        for key, pairs in of_keys(stream):
            for window, found in find(pairs):
                made.append((contents(key, window, [record for record, _ in found], how), window[1] - 1))
        return [made]

    return model


def ones_added(way_count):
    """The model of what was made of `Ones`: each record counts `way_count` times."""

    def model(records):
        payload = min((payload for _, _, payload in records), key=shown)
        return [(way_count * len(records), (way_count * total(records), payload))]

    return key_by_key(model, at_end=True)


def highest_of_numbers(way, stream):
    numbers = [number for (_, number, _), _ in without_watermarks(stream)]
    return [[((rest, max(found), None), END) for rest, found in grouped(numbers, lambda number: number % 3)]]


def counted_windows(size, slide):
    def model(way, stream):
        made = []
        for key, pairs in of_keys(stream):
            records = [record for record, _ in (by_time(pairs) if way.is_batch else pairs)]
            for found in in_counts(records, size, slide):
                made.append(((key, len(found), [number for _, number, _ in found]), None))
        return [made]

    return model


def late_windows(size, slide, lateness, how):
    def model(way, stream):
        fired, late = [], []
        for key, _ in of_keys(stream):
            script = [
                (WATERMARK, at) if record is A_WATERMARK else (RECORD, record, at)
                for record, at in stream
                if record is A_WATERMARK or shown(record[0]) == shown(key)
            ]
            windows = LateWindows(size, slide, lateness, way.is_batch).play(script)
            fired += [(contents(key, window, records, how), None) for window, records in windows.fired]
            late += [(record, None) for record in windows.late]
        return [fired, late]

    return model


def joined(way, left, right):
    made = []
    for (one_key, one, left_payload), _ in without_watermarks(left):
        for (other_key, other, right_payload), _ in without_watermarks(right):
            if shown(one_key) == shown(other_key):
                made.append(((one_key, 100 * one + other, (left_payload, right_payload)), None))
    return [made]


def both_at_the_end(way, left, right):
    sides = [(record, 0) for record, _ in without_watermarks(left)]
    sides += [(record, 1) for record, _ in without_watermarks(right)]
    made = []
    for key, found in grouped(sides, lambda pair: pair[0][0]):
        sums = [sum(record[1] for record, side in found if side == which) for which in (0, 1)]
        made.append(((key, sums[0] - sums[1], tuple(sums)), END))
    return [made]


def ruled(way, stream, rules):
    known = {}
    for (_, number, payload), _ in without_watermarks(rules):
        if number % 3 not in known or shown(known[number % 3]) < shown(payload):
            known[number % 3] = payload
    return [[((key, len(pairs), known.get(len(pairs) % 3)), END) for key, pairs in of_keys(stream)]]


def sides(way, left, right):
    made = [((key, 2 * number, payload), at) for (key, number, payload), at in without_watermarks(left)]
    for (key, number, payload), at in without_watermarks(right):
        made += [] if number % 3 == 0 else [((key, 2 * number + 1, payload), at)]
    return [made]


def flat_sides(way, left, right):
    return [
        [pair for pair in without_watermarks(left) if pair[0][1] % 2]
        + [pair for pair in without_watermarks(right) if pair[0][1] % 2 == 0]
    ]


def united(way, *streams):
    return [[pair for stream in streams for pair in without_watermarks(stream)]]


class Drawing:
    """Draws one program, step by step."""

    def __init__(self, draw):
        self.draw = draw
        self.steps, self.kinds = [], []

    def choose(self, *values):
        return self.draw(st.sampled_from(values))

    def number(self, least, most):
        return self.draw(st.integers(least, most))

    def add(self, code, inputs, model, *kinds, tag="", is_operator=True):
        self.steps.append(Step(code, inputs, model, list(kinds), tag, is_operator))
        self.kinds += kinds

    def drawn(self):
        names = self.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
        for _ in range(self.number(1, 2)):
            self.source(names)
        for _ in range(self.number(1, MOST_STEPS)):
            self.step()
        return Drawn(self.steps)

    # ---- sources

    def source(self, names):
        form = self.choose("timed", "timed", "own times", "plain", "late")
        payloads = [*TABLE, *([HUGE] if self.number(0, 99) == 99 else [])]
        one = st.tuples(
            st.sampled_from(names), st.integers(0, 3), st.integers(0, 9), st.sampled_from(payloads), st.integers(0, 2)
        )
        drawn = self.draw(st.lists(st.tuples(one, st.integers(0, 60)), max_size=MOST_RECORDS))
        spelled = [f"(value({k!r}, {i}), {n}, value({v!r}, {j}))" for (k, i, n, v, j), _ in drawn]
        records = [(value(k, i), n, value(v, j)) for (k, i, n, v, j), _ in drawn]
        times = [16 * at + place if form == "own times" else at for place, (_, at) in enumerate(drawn)]
        kind = Kind(True, form in ("timed", "own times"), form == "late", form == "own times", len(drawn))
        if form == "late":
            return self.late_source(spelled, records, times, kind)
        if form == "plain":
            code, pairs = f"s.records([{', '.join(spelled)}])", [(record, None) for record in records]
        else:
            timed = ", ".join(f"({text}, {at})" for text, at in zip(spelled, times, strict=True))
            code, pairs = f"s.records(Timed([{timed}]))", list(zip(records, times, strict=True))
        self.add(code, [], lambda way: [copy.deepcopy(pairs)], kind, is_operator=False)

    def late_source(self, spelled, records, times, kind):
        """Watermarks that follow the highest timestamp closely."""
        behind = self.choose(0, 5, 20)
        code, pairs, said = [], [], None
        for text, record, at in zip(spelled, records, times, strict=True):
            code.append(f"(RECORD, {text}, {at})")
            pairs.append((record, at))
            if said is None or at - behind > said:
                said = at - behind
                code.append(f"(WATERMARK, {said})")
                pairs.append((A_WATERMARK, said))
        source = f"s.records(Exact({', '.join(code)}))"
        self.add(source, [], lambda way: [copy.deepcopy(pairs)], kind, is_operator=False)

    # ---- steps

    def step(self):
        number = self.number(0, len(self.kinds) - 1)
        kind = self.kinds[number]
        steps = [self.each_record, self.partition, self.split, self.keyed, self.together, self.two]
        if kind.is_timed:
            steps += [self.by_time, self.window, self.window]
        if kind.is_ordered and kind.has_own_times and kind.is_timed:
            steps += [self.in_order, self.in_order]
        if kind.is_late:
            steps = [self.each_record, self.late_window, self.late_window]
        self.choose(*steps)(number, kind)

    def placed(self, kind):
        """A suffix that says where an operator runs, and what is known of its output."""
        if kind.is_ordered and (kind.is_late or self.choose(True, False)):
            return ".set_parallelism(1)", kind
        suffix = self.choose("", "", ".set_parallelism(2)", ".disable_chaining()", ".start_new_chain()")
        return suffix, dataclasses.replace(kind, is_ordered=False)

    def each_record(self, number, kind):
        suffix, kind = self.placed(kind)
        name = self.choose(
            "plus", "wrap", "change", "swap", "keep", "repeat", "stumble", "declared", "call", "sleep", "change"
        )
        code, function = self.record_function(name, kind)
        if name in ("repeat", "call"):
            kind = dataclasses.replace(kind, has_own_times=False, size=3 * kind.size)
        self.add(f"{{0}}{code}{suffix}" if name != "call" else f"{code}{suffix}", [number], each(function), kind)

    def record_function(self, name, kind):
        amount = self.number(1, 5)
        if name == "wrap":
            how = self.choose(*functions.Wrap.KINDS)
            return f'.map(Wrap("{how}"))', wrapped(how)
        if name == "keep":
            return f".filter(Keep({amount}))", lambda record: [] if record[1] % amount else [record]
        if name == "repeat":
            most = 1 + amount % 3
            return (
                f".flat_map(Repeat({most}))",
                lambda record: [
                    (record[0], record[1] + more, copy.deepcopy(record[2])) for more in range(record[1] % (most + 1))
                ],
            )
        if name == "call":
            return f"asked({{0}}, {kind.is_ordered or self.choose(True, False)})", answered
        place = ".set_parallelism(1)" if kind.is_ordered else ""
        return {
            "plus": (f".map(Plus({amount}))", lambda record: [(record[0], record[1] + amount, record[2])]),
            "sleep": (f".map(Plus({amount}, 0.002))", lambda record: [(record[0], record[1] + amount, record[2])]),
            "swap": (".map(Swap())", lambda record: [(record[2], record[1], record[0])]),
            "change": (f".map(Change({amount}))", changed(amount)),
            "stumble": (".map(s.stumble())", lambda record: [record]),
            # A union takes streams of one declared type only, so what comes out has none again.
            "declared": (f".map(Plus(0), DECLARED){place}.map(Plus(0))", lambda record: [record]),
        }[name]

    def partition(self, number, kind):
        how = self.choose(
            "rebalance()", "rescale()", "shuffle()", "partition_custom(lambda key, n: key % n, number_mod)"
        )
        kind = dataclasses.replace(kind, is_ordered=False)
        self.add(f"{{0}}.{how}.map(Plus(1))", [number], each(lambda r: [(r[0], r[1] + 1, r[2])]), kind)

    def split(self, number, kind):
        suffix, kind = self.placed(kind)
        divisor = self.number(2, 4)

        def model(way, stream):
            main, side = [], []
            for record, at in stream:
                if record is A_WATERMARK or record[1] % divisor:
                    main.append((record, at))
                if record is A_WATERMARK or record[1] % divisor == 0:
                    side.append((record, at))
            return [main, side]

        self.add(f"{{0}}.process(Split({{tag}}, {divisor})){suffix}", [number], model, kind, kind, tag="split")

    def keyed(self, number, kind):
        name = self.choose(*KEYED)
        at_end = issubclass(getattr(functions, name), functions.AtTheEnd)
        result = Kind(is_timed=at_end, size=kind.size)
        self.add(f"{{0}}.key_by(key).process({name}())", [number], key_by_key(KEYED[name], at_end), result)

    def together(self, number, kind):
        """Rolling results, and windows of processing time, of which all together are determined."""
        name, two_phase = self.choose("reduce", "highest", "clock"), self.choose(*TWO_PHASE)
        uid = '.uid("{uid}")'
        result = Kind(is_timed=True, size=kind.size)
        if name == "highest":
            how = self.choose("max", "max_by")
            keyed = "{0}.map(ByNumber(), OF_NUMBERS).key_by(key, NUMBER)"
            code = f"{keyed}.{how}(1, two_phase={two_phase}){uid}.key_by(key).process(Latest())"
            return self.add(code, [number], highest_of_numbers, result)
        add = f'reduce(AddOnes("{self.choose(*functions.AddOnes.INTO)}"), two_phase={two_phase}){uid}'
        keyed = "{0}.map(Ones()).key_by(key)"
        if name == "reduce":
            code = f"{keyed}.{add}.key_by(key).process(Latest())"
            return self.add(code, [number], ones_added(1), result)
        slide, times = self.number(1, 5), self.number(1, 3)
        windows = f"window(SlidingProcessingTimeWindows.of(ms({times * slide}), ms({slide})))"
        windows = f"{windows}.trigger(ProcessingTimeTrigger.create(fires_at_end=True))"
        code = f"{keyed}.{windows}.{add}.key_by(key).process(Together())"
        return self.add(code, [number], ones_added(times), result)

    def by_time(self, number, kind):
        width = self.number(1, 30)
        code = f"{{0}}.key_by(key).process(Bucketed({width}))"
        self.add(code, [number], bucketed(width), Kind(is_timed=True, size=kind.size))

    def in_order(self, number, kind):
        size, slide = self.number(1, 4), self.number(1, 4)
        name = self.choose("reduce", "max_by", "count_window", "sliding", "global")
        result = Kind(size=4 * kind.size)
        if name == "reduce":
            self.add("{0}.key_by(key).reduce(Add())", [number], rolling(add), result)
        elif name == "max_by":
            greater = rolling(lambda one, other: one if one[1] >= other[1] else other)
            self.add("{0}.key_by(key).max_by(1)", [number], greater, result)
        else:
            made = {
                "count_window": (f"count_window({size})", size),
                "sliding": (f"count_window({size}, {min(size, slide)})", min(size, slide)),
                "global": (f"window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of({size})))", size),
            }[name]
            code = f"{{0}}.key_by(key).{made[0]}.process(InOrder())"
            self.add(code, [number], counted_windows(size, made[1]), result)

    def window(self, number, kind):
        how, size = self.choose(*HOW), self.number(1, 40)
        name = self.choose("tumbling", "sliding", "session", "dynamic")
        offset, slide = self.number(0, size - 1), self.number(max(1, size // 4), size)
        assigner, find = {
            "tumbling": (
                f"TumblingEventTimeWindows.of(ms({size}), ms({offset}))",
                lambda pairs: in_fixed_windows(pairs, size, None, offset),
            ),
            "sliding": (
                f"SlidingEventTimeWindows.of(ms({size}), ms({slide}))",
                lambda pairs: in_fixed_windows(pairs, size, slide),
            ),
            "session": (f"EventTimeSessionWindows.with_gap(ms({size}))", lambda pairs: in_sessions(pairs, size)),
            "dynamic": (
                "DynamicEventTimeSessionWindows.with_dynamic_gap(GapByNumber())",
                lambda pairs: in_sessions(pairs, lambda record: 1 + record[1] % 20),
            ),
        }[name]
        is_together = name in ("tumbling", "sliding") and is_gathering(how)
        call = with_phase(how, self.choose(*TWO_PHASE)) if is_together else how
        code = f"{{0}}.key_by(key).window({assigner}).{call}"
        self.add(code, [number], windowed(find, how), Kind(is_timed=True, size=5 * kind.size))

    def late_window(self, number, kind):
        how, size, lateness = self.choose(*HOW), self.number(1, 40), self.choose(0, 0, 5, 30)
        slide = self.choose(size, max(1, size // 2))
        keyed = f"{{0}}.key_by(key).window(SlidingEventTimeWindows.of(ms({size}), ms({slide})))"
        if is_gathering(how) and self.choose(False, True):  # which drops what is late

            def without_late(way, stream):
                return late_windows(size, slide, 0, how)(way, stream)[:1]

            code = f"{keyed}.{with_phase(how, self.choose(*TWO_PHASE))}"
            return self.add(code, [number], without_late, Kind(size=4 * kind.size))
        code = f"{keyed}.allowed_lateness({lateness}).side_output_late_data({{tag}}).{how}"
        result = Kind(size=4 * kind.size)
        self.add(code, [number], late_windows(size, slide, lateness, how), result, result, tag="late")

    def two(self, number, kind):
        other = self.number(0, len(self.kinds) - 1)
        other_kind = self.kinds[other]
        if kind.size * other_kind.size > MOST_OF_A_STREAM:
            return self.each_record(number, kind)
        is_timed = kind.is_timed and other_kind.is_timed
        result = Kind(is_timed=is_timed, size=kind.size + other_kind.size)
        name = self.choose("union", "map", "flat_map", "join", "both", "rules")
        if name == "union":
            return self.add("{0}.union({1})", [number, other], united, result, is_operator=False)
        keyed = "{0}.connect({1}).key_by(key, key).process"
        code, model, result = {
            "map": ("{0}.connect({1}).map(Sides())", sides, result),
            "flat_map": ("{0}.connect({1}).flat_map(FlatSides())", flat_sides, result),
            "join": (f"{keyed}(Joined())", joined, Kind(size=kind.size * other_kind.size)),
            "both": (f"{keyed}(BothAtTheEnd())", both_at_the_end, Kind(is_timed=True, size=result.size)),
            "rules": (
                "{0}.key_by(key).connect({1}.broadcast(RULES)).process(Ruled())",
                ruled,
                Kind(is_timed=True, size=kind.size),
            ),
        }[name]
        return self.add(code, [number, other], model, result)


@st.composite
def programs(draw):
    """Programs with their models."""
    return Drawing(draw).drawn()


@st.composite
def ways(draw, targets=("embedded",), faults=(CALM, CALM, RAISE, MOVE)):
    """Ways, the plainest first."""
    target, fault = draw(st.sampled_from(targets)), draw(st.sampled_from(faults))
    fault = RAISE if fault == KILL and target != "local" else fault
    way = Way(
        target,
        draw(st.sampled_from(("hashmap", "rocksdb"))),
        draw(st.integers(1, 3)),
        fault == CALM and draw(st.booleans()),
        fault,
        hash_seed=draw(st.sampled_from(HASH_SEEDS)),
        is_chained=not draw(st.sampled_from((False, False, True))),
        cache_entries=draw(st.sampled_from((10_000, 1, 1))),
    )
    if fault == CALM:
        return way
    way = dataclasses.replace(way, cut=draw(st.integers(0, 10)) / 10)
    if fault == MOVE:
        after = draw(st.sampled_from(("hashmap", "rocksdb")))
        return dataclasses.replace(way, width_after=draw(st.integers(1, 3)), backend_after=after)
    place = draw(st.sampled_from(("source", "within", "output")))
    return dataclasses.replace(way, place=place, is_unaligned=draw(st.booleans()))


def pasted(drawn, way, failure):
    """A failing program as a script that shows it again."""
    return (
        '"""Run in the folder tests: python this_file.py"""\n\n'
        "from matrix.functions import *\nfrom matrix.again import show\nfrom matrix.ways import Way\n\n\n"
        f"{drawn.code()}\n\n"
        f"# {way!s}\n# " + "\n# ".join(failure.splitlines()[:40]) + f"\n\nshow(program, {way!r})\n"
    )
