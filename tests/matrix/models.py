"""What programs give, in plain Python over lists: slow, and simple enough to be right."""

from matrix.values import shown


def grouped(records, key):
    """Records by key: a list of (key, records in their order), keys told apart as `values` says."""
    groups = {}
    for record in records:
        at = key(record)
        groups.setdefault(shown(at), (at, []))[1].append(record)
    return list(groups.values())


def by_time(pairs):
    """(value, timestamp) pairs in the order of time, as a batch job brings those of a key."""
    return sorted(pairs, key=lambda pair: pair[1])


def rolled(values, add):
    """Each value added to all before it."""
    made = []
    for value in values:
        made.append(add(made[-1], value) if made else value)
    return made


def fixed_windows(at, size, slide=None, offset=0):
    """The windows of a length that begin at each multiple of a step, plus the offset, and hold a time."""
    slide = slide or size
    first = at - (at - offset) % slide
    return [(start, start + size) for start in range(first, at - size, -slide)]


def in_fixed_windows(pairs, size, slide=None, offset=0):
    """(window, its pairs) for each window that holds one."""
    windows = {}
    for value, at in pairs:
        for window in fixed_windows(at, size, slide, offset):
            windows.setdefault(window, []).append((value, at))
    return sorted(windows.items())


def in_sessions(pairs, gap):
    """(window, its pairs) for each session: pairs whose times are not further apart than the gap."""
    gap_of = gap if callable(gap) else lambda value: gap
    sessions = []
    for value, at in by_time(pairs):
        end = at + gap_of(value)
        if sessions and sessions[-1][1] >= at:
            sessions[-1][1] = max(sessions[-1][1], end)
            sessions[-1][2].append((value, at))
        else:
            sessions.append([at, end, [(value, at)]])
    return [((start, end), found) for start, end, found in sessions]


def in_counts(values, size, slide=None):
    """Windows of so many values, one beginning at each `slide`-th; those that are not full do not fire."""
    return [values[start : start + size] for start in range(0, len(values) - size + 1, slide or size)]


class LateWindows:
    """Windows of a length and a step over a script that makes some of its records late.

    Play the script of one key; `fired` has (window, values), `late` the values that came too late for all windows.
    """

    def __init__(self, size, slide=None, lateness=0, is_batch=False):
        self.size, self.slide, self.lateness, self.is_batch = size, slide or size, lateness, is_batch
        self.watermark = -(2**63)
        self.open, self.fired, self.late = {}, [], []

    def record(self, value, at):
        windows = fixed_windows(at, self.size, self.slide)
        kept = [window for window in windows if window[1] - 1 + self.lateness > self.watermark]
        for window in kept:
            self.open.setdefault(window, []).append(value)
            if window[1] - 1 <= self.watermark:
                self.fire(window)
        if not kept and at + self.lateness <= self.watermark:
            self.late.append(value)

    def advance(self, watermark):
        if self.is_batch:
            return
        before, self.watermark = self.watermark, max(watermark, self.watermark)
        for window in sorted(self.open, key=lambda each: each[1]):
            if before < window[1] - 1 <= self.watermark:
                self.fire(window)
        self.open = {each: found for each, found in self.open.items() if each[1] - 1 + self.lateness > self.watermark}

    def fire(self, window):
        self.fired.append((window, list(self.open[window])))

    def play(self, steps):
        for step in steps:
            if step[0] == "record":
                self.record(step[1], step[2])
            else:
                self.advance(step[1])
        self.is_batch = False
        self.advance(2**63 - 1)
        return self
