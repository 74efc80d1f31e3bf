"""Names of directories and files of checkpoints: on this machine, and as URIs with options and secrets."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.checkpoints import locations as loc

NAMES = st.text(st.sampled_from("abc-_.7"), min_size=1, max_size=4).filter(lambda name: name.strip("."))
PLACES = st.sampled_from(["/c", "/", "s3://bucket", "s3://bucket/a?region=x", "hdfs://host:8020/c", "hdfs:///c"])


@pytest.mark.parametrize(
    "given_as, location",
    [
        ("/checkpoints/", "/checkpoints"),
        ("file:///checkpoints/a%20b", "/checkpoints/a b"),
        ("file:/checkpoints", "/checkpoints"),
        ("checkpoints", os.path.join(os.getcwd(), "checkpoints")),
        ("~/c", os.path.expanduser("~/c")),
        ("/a?b/c", "/a?b/c"),
        ("S3://bucket/a//", "s3://bucket/a"),
        ("s3://bucket/a/?region=x&scheme=http", "s3://bucket/a?region=x&scheme=http"),
        ("abfs://box@account.dfs.core.windows.net/a", "abfs://box@account.dfs.core.windows.net/a"),
        ("hdfs://me@host:8020/a", "hdfs://me@host:8020/a"),
    ],
)
def test_a_directory_becomes_a_location(given_as, location):
    assert loc.normalized(given_as) == location
    assert loc.normalized(location) == location


@pytest.mark.parametrize(
    "uri", ["s3://key:se@cret@bucket/a", "abfs://box/a?client_secret=x", "abfs://box/a?tenant_id=y&sas_token=x"]
)
def test_credentials_are_refused_and_not_repeated(uri):
    with pytest.raises(ValueError, match="AWS_ACCESS_KEY_ID") as caught:
        loc.normalized(uri)
    assert "cret" not in str(caught.value) and "=x" not in str(caught.value)


def test_no_directory_is_refused():
    with pytest.raises(ValueError, match="must not be empty"):
        loc.normalized("")


@given(PLACES, st.lists(NAMES, min_size=1, max_size=3))
def test_the_parent_of_a_child_is_where_one_was(place, names):
    within = loc.child(place, *names)
    assert loc.name_of(within) == names[-1]
    for _ in names:
        within = loc.parent(within)
    assert loc.child(within, "x") == loc.child(place, "x")


@given(PLACES, PLACES, NAMES, NAMES)
def test_what_lies_in_a_checkpoint_or_its_job_moves_with_it(old, new, job, name):
    before, after = loc.child(old, job, "chk-1"), loc.child(new, job, "chk-1")
    for path in ((name,), ("more", name)):
        assert loc.absolute(loc.relative(loc.child(before, *path), before), after) == loc.child(after, *path)
        shared = loc.child(loc.child(old, job, loc.SHARED), *path)
        assert loc.absolute(loc.relative(shared, before), after) == loc.child(loc.child(new, job, loc.SHARED), *path)


@given(PLACES, NAMES)
def test_what_lies_elsewhere_stays_where_it_is(place, name):
    path = loc.child(place, "elsewhere", name)
    for here in ("/d/job/chk-1", "s3://bucket/d/job/chk-1", loc.child(place, "else", "chk-1")):
        assert loc.absolute(loc.relative(path, here), "/new/chk-1") in (path, f"/new/elsewhere/{name}")
    assert loc.relative(loc.child(place, "job", "chk-10", name), loc.child(place, "job", "chk-1")).startswith("../")


def test_another_epoch_has_other_directories():
    assert loc.checkpoint_location("/c", "job", 7) == "/c/job/chk-7"
    assert loc.checkpoint_location("s3://b/c?x=1", "job", 7, 3) == "s3://b/c/job/chk-7-3?x=1"
    assert [
        loc.checkpoint_id_of(f"/c/{name}") for name in ("chk-7", "chk-7-3", "savepoint-ab-1", "chk-", "chk-7x")
    ] == [
        7,
        7,
        None,
        None,
        None,
    ]
    assert loc.savepoint_location("/c", "abcdefgh", "0123") == "/c/savepoint-abcdef-0123"
