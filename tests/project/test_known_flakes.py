"""Which tests have a second try: those on the list, which says why."""

import ast
from pathlib import Path

from support.known_flakes import KNOWN_FLAKES

ROOT = Path(__file__).resolve().parents[2]


def test_no_test_outside_of_the_list_has_a_second_try(request):
    tried_again = {item.nodeid.partition("[")[0] for item in request.session.items if item.get_closest_marker("flaky")}
    assert tried_again <= KNOWN_FLAKES.keys()


def test_what_is_on_the_list_exists_and_says_why():
    for test, text in KNOWN_FLAKES.items():
        path, _, name = test.partition("::")
        functions = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if hasattr(node, "name")}
        assert name.rpartition("::")[2] in functions, f"{test} is gone: take it off the list"
        reason, _, done = text.partition(";")
        assert reason.strip() and done.strip(), f"{test}: say why it fails now and then; what was done to find out"
