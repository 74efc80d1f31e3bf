"""Small programs, each with a state of its own, which `Facts` runs side by side in one query: what they see is told."""

import datetime
import math
from decimal import Decimal

import numpy as np
from processors import Base, told
from pyspark.sql import Row

FACTS = []


def fact(kind, *schemas):
    def add(function):
        FACTS.append((function.__name__, kind, schemas, function))
        return function

    return add


class Facts(Base):
    """All of them for each key; a fact gets its state and the rows in the order of their values."""

    def init(self, handle):
        super().init(handle)
        self.states = {name: getattr(handle, f"get{kind}State")(name, *schemas) for name, kind, schemas, _ in FACTS}

    def handleInputRows(self, key, rows, timerValues):
        rows = sorted(rows, key=lambda row: row.value)
        for name, _, _, function in FACTS:
            yield told(key, name, plain(function(self.states[name], rows)))


def plain(value):
    """Return a value whose text is the same for both: Spark gives binaries as bytearrays, and rows without names."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return sorted((plain(key), plain(each)) for key, each in value.items())
    return value


# ---- a value


@fact("Value", "n bigint")
def counts(state, rows):
    state.update(((state.get() or (0,))[0] + len(rows),))
    return state.get()


@fact("Value", "n bigint, s string")
def has_two_fields(state, rows):
    before = state.get()
    state.update((rows[-1].value, rows[-1]["key"]))
    return before, state.get()


@fact("Value", "n bigint, s string")
def has_null_fields(state, rows):
    before = state.get()
    state.update((None, None) if rows[0].value % 2 else (rows[0].value, None))
    return before, state.exists(), state.get()


@fact("Value", "n bigint")
def is_set_twice(state, rows):
    for row in rows:
        state.update((row.value,))
    return state.get()


@fact("Value", "n bigint")
def is_cleared(state, rows):
    before = state.exists()
    state.update((1,))
    state.clear()
    state.clear()
    return before, state.exists(), state.get()


@fact("Value", "n bigint")
def comes_back_after_it_was_cleared(state, rows):
    before = state.get()
    state.update((1,))
    state.clear()
    state.update((rows[0].value,))
    return before, state.get()


@fact("Value", "n bigint")
def is_kept_every_second_time(state, rows):
    before = state.get()
    if before:
        state.clear()
    else:
        state.update((len(rows),))
    return before


@fact("Value", "s string")
def holds_text(state, rows):
    before = state.get()
    state.update((f"\N{SNOWMAN}\0é {rows[0].value}" * 3 if rows[0].value % 3 else "",))
    return before


@fact("Value", "x binary")
def holds_bytes(state, rows):
    before = state.get()
    state.update((bytes([rows[0].value, 0, 255]),))
    return before


@fact("Value", "b boolean")
def holds_booleans(state, rows):
    before = state.get()
    state.update((rows[0].value % 2 == 0,))
    return before


@fact("Value", "a tinyint, b smallint, c int, d bigint")
def holds_the_least_and_greatest_numbers(state, rows):
    before = state.get()
    state.update((-128, 32767, -(1 << 31), (1 << 63) - 1) if rows[0].value % 2 else (127, -32768, 1, -(1 << 63)))
    return before


@fact("Value", "a double, b double, c double")
def holds_doubles(state, rows):
    before = state.get()
    state.update((math.inf, rows[0].value / 7, math.nan))
    return before and [str(each) for each in before]


@fact("Value", "f float")
def rounds_floats(state, rows):
    before = state.get()
    state.update((rows[0].value / 7,))
    return before


@fact("Value", "m decimal(12,3)")
def holds_decimals(state, rows):
    before = state.get()
    state.update((Decimal(rows[0].value) / 8,))
    return before


@fact("Value", "at timestamp, day date")
def holds_times(state, rows):
    before = state.get()
    at = datetime.datetime(2024, 2, 29, 23, 59, 59, rows[0].value)
    state.update((at, at.date()))
    return before


@fact("Value", "l array<bigint>, k array<string>")
def holds_lists(state, rows):
    before = state.get()
    state.update(([row.value for row in rows], [None, "a"]))
    return before


@fact("Value", "l array<bigint>")
def is_not_changed_with_what_was_given(state, rows):
    values = [rows[0].value]
    state.update((values,))
    values.append(-1)
    given = state.get()
    given[0].append(-2)
    return state.get()


@fact("Value", "t struct<a: string, b: struct<c: int>>")
def holds_structs(state, rows):
    before = state.get()
    state.update((Row(a="é", b=Row(c=rows[0].value)),))
    return before


@fact("Value", "p map<string, bigint>")
def holds_maps(state, rows):
    before = state.get()
    state.update(({"a": rows[0].value, "b": None},))
    return before


@fact("Value", "n bigint, d double")
def takes_numbers_of_numpy(state, rows):
    before = state.get()
    state.update((np.int64(rows[0].value), np.float64(0.5)))
    return before, [type(each).__name__ for each in before or ()]


@fact("Value", "n bigint, s string")
def takes_rows(state, rows):
    before = state.get()
    state.update(Row(n=rows[0].value, s="x"))
    return before


# ---- a list


@fact("List", "v bigint")
def grows(state, rows):
    for row in rows:
        state.appendValue((row.value,))
    return list(state.get())


@fact("List", "v bigint, s string")
def grows_by_lists(state, rows):
    state.appendList([(row.value, None) for row in rows])
    state.appendList([(-1, "end")])
    return list(state.get()), state.exists()


@fact("List", "v bigint")
def is_put_anew(state, rows):
    before = list(state.get())
    state.put([(row.value,) for row in rows[:2]])
    state.appendValue((7,))
    return before, list(state.get())


@fact("List", "v bigint")
def holds_one_element_often(state, rows):
    state.appendList([(1,), (1,)])
    state.appendValue((1,))
    return list(state.get())


@fact("List", "v bigint")
def keeps_the_last_three(state, rows):
    for row in rows:
        state.appendValue((row.value,))
    state.put(list(state.get())[-3:])
    return list(state.get())


@fact("List", "v bigint")
def is_put_while_it_is_read(state, rows):
    state.appendList([(row.value,) for row in rows])
    kept = [value for value in state.get() if value[0] % 2]
    if kept:
        state.put(kept)
    else:
        state.clear()
    return list(state.get()), state.exists()


@fact("List", "v bigint")
def is_cleared_and_begins_again(state, rows):
    before = list(state.get())
    if len(before) > 3:
        state.clear()
    state.appendValue((rows[0].value,))
    return before, list(state.get())


@fact("List", "l array<string>, at timestamp")
def has_elements_with_lists(state, rows):
    before = list(state.get())
    state.appendValue(([rows[0]["key"], "x"], datetime.datetime(1970, 1, 1, 0, 0, 0, rows[0].value)))
    return before


# ---- a map


@fact("Map", "k bigint", "n bigint")
def counts_by_key(state, rows):
    for row in rows:
        at = (row.value % 4,)
        state.updateValue(at, ((state.getValue(at) or (0,))[0] + 1,))
    return sorted(state.iterator())


@fact("Map", "k string, n int", "s string, x binary")
def has_keys_of_two_fields(state, rows):
    for row in rows:
        state.updateValue((str(row.value % 3), row.value % 2), (row["key"], b"\0"))
    return sorted((key, str(plain(value))) for key, value in state.iterator()), sorted(state.keys())


@fact("Map", "k bigint", "n bigint")
def lacks_what_was_not_put(state, rows):
    return state.exists(), state.containsKey((1,)), state.getValue((1,)), list(state.keys()), list(state.values())


@fact("Map", "k bigint", "n bigint")
def loses_entries(state, rows):
    for row in rows:
        state.updateValue((row.value,), (1,))
    state.removeKey((rows[0].value,))
    state.removeKey((12345,))
    return sorted(state.keys()), state.containsKey((rows[0].value,))


@fact("Map", "k bigint", "n bigint")
def loses_entries_while_it_is_read(state, rows):
    for row in rows:
        state.updateValue((row.value,), (row.value % 3,))
    for key, value in list(state.iterator()):
        if value == (0,):
            state.removeKey(key)
    return sorted(state.iterator())


@fact("Map", "k bigint", "n bigint")
def changes_while_it_is_read(state, rows):
    for row in rows:
        state.updateValue((row.value % 5,), (row.value,))
    for key in list(state.keys()):
        state.updateValue(key, (state.getValue(key)[0] + 1,))
    return sorted(state.iterator())


@fact("Map", "k bigint", "n bigint")
def is_cleared_when_it_is_large(state, rows):
    for row in rows:
        state.updateValue((row.value,), (1,))
    if len(list(state.keys())) > 4:
        state.clear()
    return state.exists(), sorted(state.keys())


@fact("Map", "k bigint", "n bigint")
def has_an_entry_again(state, rows):
    before = state.getValue((1,))
    state.removeKey((1,))
    state.updateValue((1,), (rows[0].value,))
    return before, state.getValue((1,))


@fact("Map", "day date", "l array<bigint>")
def has_keys_of_time(state, rows):
    for row in rows:
        state.updateValue((datetime.date(2024, 1, 1 + row.value % 3),), ([row.value, None],))
    return sorted((str(key), str(value)) for key, value in state.iterator())
