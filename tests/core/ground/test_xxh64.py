"""XXH64 of the core: in pieces as in one, and made to come out as wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.ground.xxh64 import last_word, xxh64

WORDS = st.binary(max_size=30).map(lambda data: 8 * data).filter(lambda data: len(data) % 32 != 24)


@given(parts=st.lists(st.binary(max_size=80), max_size=5))
def test_pieces_have_the_hash_of_the_whole(parts):
    assert xxh64(*parts) == xxh64(b"".join(parts))


@given(data=WORDS, wanted=st.integers(0, 2**64 - 1), cut=st.integers(0, 240))
def test_the_last_word_makes_any_hash(data, wanted, cut):
    assert xxh64(data, last_word(wanted, data[:cut], data[cut:])) == wanted


@pytest.mark.parametrize("size", [1, 7, 24, 56])
def test_no_word_is_given_where_none_helps(size):
    with pytest.raises(ValueError, match=rf"no 8 bytes behind {size} "):
        last_word(0, bytes(size))
