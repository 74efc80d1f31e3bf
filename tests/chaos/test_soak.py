"""What `make soak` does for hours, until each kind of fault has come."""

import json

import pytest
import soak

PATIENCE_S = 600  # of a machine that does much else; half a minute is enough for one that does not


def has_seen_all(row):
    """Whether each fault has come, and records were compared since."""
    return row["records"] > 1_000 and min(row["kills"], row["cuts"], row["rescaled"]) >= 1


@pytest.mark.long
def test_a_job_that_is_killed_rescaled_and_cut_off_says_what_the_model_says(tmp_path):
    run = soak.Soak(tmp_path, kill_every_s=20, rescale_every_s=25, cut_every_s=10)
    rows = run.run(PATIENCE_S, has_seen_all)
    assert has_seen_all(rows[-1]), rows[-1]
    soak.draw(rows, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 10_000


def lines_of(key, ends):
    for end in ends:
        yield json.dumps(["window", key, end, *soak.expected(key, end)])


def test_the_model_knows_the_sums_that_numbers_have():
    numbers = [n for base in (0, soak.HALF) for n in range(base + 500, base + 1_000) if n % soak.KEYS == 13]
    assert soak.expected(13, 1_000) == (sum(numbers), len(numbers))


def test_the_model_finds_what_came_twice():
    model = soak.Model()
    for line in lines_of(3, [500, 1_500, 1_000]):
        model.check(line)
    with pytest.raises(soak.WrongOutputError, match="came twice"):
        model.check(next(lines_of(3, [1_000])))


def test_the_model_finds_what_is_wrong():
    with pytest.raises(soak.WrongOutputError, match="it must be"):
        soak.Model().check(json.dumps(["timer", 3, 500, 1, 1]))
    with pytest.raises(soak.WrongOutputError, match="broken"):
        soak.Model().check(json.dumps(["broken", 3, "the broadcast state is gone"]))


def test_the_model_finds_what_is_missing(monkeypatch):
    model = soak.Model()
    for line in lines_of(3, [500, 1_500]):
        model.check(line)
    model.check_gaps()
    monkeypatch.setattr(soak, "STANDSTILL_S", -1)
    with pytest.raises(soak.WrongOutputError, match="window 1000 of key 3 is missing"):
        model.check_gaps()


@pytest.mark.parametrize("name", ["driver_rss_mb", "driver_threads", "driver_descriptors", "files"])
def test_what_grows_is_named(name):
    rows = [dict.fromkeys(soak.FIELDS, 50) for _ in range(100)]
    soak.check_flat(rows)
    for number, row in enumerate(rows):
        row[name] += number * 2
    with pytest.raises(AssertionError, match=f"{name} has grown"):
        soak.check_flat(rows)
