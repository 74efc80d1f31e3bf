"""The garbage collector at its worst moments."""

import contextlib
import gc


@contextlib.contextmanager
def collector_runs(action, times=50):
    """Have the collector run whenever it may, and `action` with it, as a finalizer or another thread would then."""
    left, is_running = times, False

    def act(phase, info):
        nonlocal left, is_running
        if phase == "start" and left and not is_running:
            left, is_running = left - 1, True
            try:
                action()
            finally:
                is_running = False

    before, held = gc.get_threshold(), [(number, number) for number in range(10_000)]  # no free tuple is at hand
    gc.callbacks.append(act)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(act)
    assert left < times, "it never ran"
    held.clear()
