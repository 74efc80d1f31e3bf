"""Processors as people write them for Spark: each runs unchanged through Spark's own operator and through ours."""

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Base(StatefulProcessor):
    def init(self, handle):
        self.handle = handle

    def close(self):
        pass

    def timers(self):
        return sorted(self.handle.listTimers())  # Spark gives them in the order of their bytes


def told(key, *values):
    return Row(key=str(tuple(key)), told=" ".join(map(str, values)))


class AllKinds(Base):
    """A value, a list and a map for each key, through all of their methods; one more value of many types."""

    def init(self, handle):
        super().init(handle)
        self.count = handle.getValueState("count", "n bigint")
        self.list = handle.getListState("list", "v bigint, s string")
        self.map = handle.getMapState("map", "v bigint", "n int, s string")
        self.types = handle.getValueState(
            "types",
            "b boolean, f float, d double, x binary, m decimal(10,2), at timestamp, day date, l array<bigint>, "
            "t struct<a: string, b: int>, p map<string, bigint>",
        )

    def handleInputRows(self, key, rows, timerValues):
        rows = sorted(rows, key=lambda row: row.value)
        yield told(key, *self.values(rows), *self.lists(rows), *self.maps(rows), self.of_types(rows[0]))

    def values(self, rows):
        count = self.count.get()[0] if self.count.exists() else 0
        count += len(rows)
        if count % 5 == 4:
            self.count.clear()
        else:
            self.count.update((count,))
        return count, self.count.get(), self.count.exists()

    def lists(self, rows):
        before = list(self.list.get())
        for row in rows:
            self.list.appendValue((row.value, row["key"]))
        if len(list(self.list.get())) > 6:
            self.list.put(list(self.list.get())[-2:])
        elif len(before) == 4:
            self.list.clear()
        exists = self.list.exists()
        self.list.appendList([(-1, None), (-2, "x")])
        return before, exists, list(self.list.get())

    def maps(self, rows):
        for row in rows:
            at = (row.value % 3,)
            if self.map.containsKey(at):
                self.map.updateValue(at, (self.map.getValue(at)[0] + 1, "again"))
            else:
                self.map.updateValue(at, (1, None))
        entries = sorted(self.map.iterator()), sorted(self.map.keys()), sorted(map(str, self.map.values()))
        self.map.removeKey((1,))
        missing = self.map.getValue((1,)), self.map.getValue((77,)), self.map.exists()
        if len(list(self.map.keys())) == 2:
            self.map.clear()
        return entries, missing, self.map.exists()

    def of_types(self, row):
        import datetime
        from decimal import Decimal

        before = self.types.get()
        n = row.value
        at = datetime.datetime(2020, 1, 1, 0, 0, n, 7)
        value = (n > 9, n / 3, n / 3, b"\0x", Decimal(n), at, at.date(), [n, None], Row(a="é", b=n), {"p": n})
        self.types.update(value if n % 2 else (None,) * 10)
        # Spark gives binary values as bytearray, and a row without a name for what is in one.
        return before and [bytes(each) if isinstance(each, (bytes, bytearray)) else each for each in before]


class EventTimers(Base):
    """Timers at, before and after the watermark; some are deleted."""

    def init(self, handle):
        super().init(handle)
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key, rows, timerValues):
        watermark = timerValues.getCurrentWatermarkInMs()
        for row in rows:
            count = self.count.get()[0] if self.count.exists() else 0
            self.count.update((count + 1,))
            if row["at"] is None:
                continue
            at_ms = int(row["at"].timestamp() * 1000)
            self.handle.registerTimer(at_ms + 5)
            if row.value % 4 == 0:
                self.handle.deleteTimer(at_ms + 5)
            if row.value % 7 == 0:
                self.handle.registerTimer(watermark)
        yield told(key, "rows", watermark, self.count.get(), self.timers())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        if at_ms % 11 == 0:
            self.handle.registerTimer(at_ms + 3)
        if at_ms % 13 == 0:
            self.count.clear()
        yield told(key, "timer", at_ms, timerValues.getCurrentWatermarkInMs(), self.count.get(), self.timers())


class ProcessingTime(Base):
    """Timers and times to live by the clock: what is told holds no time, and waits are long beside a batch."""

    LONG, SHORT = 3_600_000, 1

    def init(self, handle):
        super().init(handle)
        self.batches = handle.getValueState("batches", "n bigint")
        self.brief = handle.getValueState("brief", "n bigint", self.SHORT)
        self.lasting = handle.getValueState("lasting", "n bigint", self.LONG)
        self.brief_list = handle.getListState("brief_list", "n bigint", self.SHORT)
        self.lasting_list = handle.getListState("lasting_list", "n bigint", self.LONG)
        self.brief_map = handle.getMapState("brief_map", "n bigint", "n bigint", self.SHORT)
        self.lasting_map = handle.getMapState("lasting_map", "n bigint", "n bigint", self.LONG)

    def handleInputRows(self, key, rows, timerValues):
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        batch = (self.batches.get() or (0,))[0] + 1
        self.batches.update((batch,))
        before = self.state()
        for state in (self.brief, self.lasting):
            state.update((batch,))
        for state in (self.brief_list, self.lasting_list):
            state.appendValue((batch,))
        for state in (self.brief_map, self.lasting_map):
            state.updateValue((batch,), (-batch,))
        self.handle.registerTimer(now_ms - 1)  # fires in this batch
        self.handle.registerTimer(now_ms + self.LONG)
        self.handle.registerTimer(now_ms + 2 * self.LONG)
        self.handle.deleteTimer(now_ms + 2 * self.LONG)
        yield told(key, "rows", before, self.state(), timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        ahead = timerValues.getCurrentProcessingTimeInMs() - expiredTimerInfo.getExpiryTimeInMs()
        yield told(key, "timer", ahead if ahead == 1 else "late", len(self.timers()))

    def state(self):
        return [
            *(state.get() for state in (self.brief, self.lasting)),
            *(list(state.get()) for state in (self.brief_list, self.lasting_list)),
            *(sorted(state.iterator()) for state in (self.brief_map, self.lasting_map)),
            *(state.exists() for state in (self.brief, self.brief_list, self.brief_map)),
        ]


class FromInitial(Base):
    """A sum that begins with what the initial state has."""

    def init(self, handle):
        self.sum = handle.getValueState("sum", "n bigint")

    def handleInitialState(self, key, initialState, timerValues):
        self.sum.update(((self.sum.get() or (0,))[0] + initialState["start"],))

    def handleInputRows(self, key, rows, timerValues):
        self.sum.update(((self.sum.get() or (0,))[0] + sum(row.value for row in rows),))
        yield told(key, self.sum.get())
