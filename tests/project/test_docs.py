"""What README and docs/ show is true: their Python runs, their output is real, their links and names are there.

Python in fences is run page by page, in one namespace a page, in the order of the page:

* a block with ``>>>`` is a doctest;
* what another block prints is compared with the ``text`` block under it, if that one follows ``<!-- output -->``;
* ``<!-- run: spark -->`` before a block needs the session of the tests, as does all that follows it on its page;
* ``<!-- run: no: why -->`` before a block leaves it out, with the reason;
* ``<!-- first:``, Python, ``-->`` brings what a reader has and the page does not show, such as a server to call.

In expected output ``...`` stands for anything.
"""

import contextlib
import doctest
import importlib.util
import io
import os
import pkgutil
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

import flinkbuf as fb

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
FENCE = re.compile(
    r"^<!-- first:\n(?P<hidden>(?:(?!-->).)*)^-->$"
    r"|(?P<notes>(?:^<!--(?:(?!-->).)*-->\n)*)^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
BLOCK_S = 120  # a Spark job on a busy machine takes a while
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not part of this installation")


@dataclass
class Block:
    """One fenced block of Python."""

    line: int
    text: str
    needs_spark: bool = False
    expected: str | None = None


def blocks_of(text):
    """Return the Python that is to be run, with what it should print."""
    blocks, needs_spark = [], False
    for match in FENCE.finditer(text):
        if match["hidden"] is not None:
            blocks.append(Block(text.count("\n", 0, match.start("hidden")) + 1, match["hidden"], needs_spark))
            continue
        notes = match["notes"]
        line = text.count("\n", 0, match.start("text")) + 1
        if match["language"] == "text" and "<!-- output -->" in notes:
            assert blocks and blocks[-1].expected is None, f"line {line}: this output belongs to no block"
            blocks[-1].expected = match["text"]
        elif match["language"] == "python" and "run: no:" not in notes:
            needs_spark = needs_spark or "run: spark" in notes
            blocks.append(Block(line, match["text"], needs_spark))
    return blocks


def run(block, page, namespace):
    """Run one block; the traceback of an error names page and line."""
    if ">>> " in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, namespace, page.name, str(page), block.line - 1)
        report = io.StringIO()
        failures = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(
            test, out=report.write, clear_globs=False
        )
        namespace.update(test.globs)
        assert not failures.failed, report.getvalue()
        return
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    if block.expected is not None:
        wanted, got = block.expected, printed.getvalue()
        assert doctest.OutputChecker().check_output(wanted, got, FLAGS), (
            f"{page.name}, line {block.line}, prints\n{got}\nand the page says\n{wanted}"
        )


def page_name(page):
    return str(page.relative_to(ROOT))


PLAIN = [page for page in PAGES if any(not block.needs_spark for block in blocks_of(page.read_text("utf-8")))]
WITH_SPARK = [page for page in PAGES if any(block.needs_spark for block in blocks_of(page.read_text("utf-8")))]


def run_page(page):
    namespace = {"__name__": "__main__"}
    for block in blocks_of(page.read_text("utf-8")):
        with at_most(BLOCK_S, f"{page.name}, line {block.line}"):
            run(block, page, namespace)


@contextlib.contextmanager
def at_most(seconds, where):
    """An example that waits for itself fails, and does not hold up the tests."""

    def give_up(signal_number, frame):
        raise TimeoutError(f"{where}: not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def keep_defaults(monkeypatch):
    """Streams of a page are embedded, so that what they print is seen; a page that wants it otherwise may say so."""
    monkeypatch.setenv("FLINKBUF_PROPERTIES", os.environ["FLINKBUF_PROPERTIES"])


@pytest.mark.parametrize("page", [page for page in PLAIN if page not in WITH_SPARK], ids=page_name)
def test_the_python_of_a_page_runs(page, monkeypatch, tmp_path):
    keep_defaults(monkeypatch)
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_SPARK, ids=page_name)
def test_the_python_of_a_page_runs_on_spark(page, spark, monkeypatch, tmp_path):
    keep_defaults(monkeypatch)
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("```python\nprint(1)\n```\n<!-- output -->\n```text\n1\n```\n", True),
        ("```python\nprint(1)\n```\n<!-- output -->\n```text\n2\n```\n", False),
        ("```python\nprint('a b c')\n```\n<!-- output -->\n```text\na ... c\n```\n", True),
        ("```python\nx = 2\n```\ntext\n```python\n>>> x\n2\n```\n", True),
        ("```python\n>>> 1 + 1\n3\n```\n", False),
        ("```python\nraise ValueError\n```\n", False),
        ("<!-- run: no: it would not end -->\n```python\nraise ValueError\n```\n", True),
    ],
)
def test_a_page_that_says_what_is_not_so_would_be_found(text, is_true, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    with contextlib.nullcontext() if is_true else pytest.raises((AssertionError, ValueError)):
        run_page(page)


def names_in(*pages):
    """Return the dotted names that pages of the reference show."""
    text = "".join(page.read_text("utf-8") for page in pages)
    return re.findall(r"^::: flinkbuf\.([\w.]+)$", text, re.MULTILINE)


def test_every_public_name_is_in_the_reference():
    shown = names_in(*(DOCS / "reference").glob("*.md"))
    last_parts = {name.rpartition(".")[2] for name in shown}
    assert len(last_parts) == len(shown), "a name is in the reference twice"
    missing = set(fb.__all__) - {"__version__"} - last_parts
    assert not missing, f"not in docs/reference: {sorted(missing)}"


@pytest.mark.parametrize("name", names_in(*(DOCS / "reference").glob("*.md")))
def test_what_the_reference_shows_has_a_docstring(name):
    assert pkgutil.resolve_name(f"flinkbuf.{name}").__doc__


def test_every_event_is_in_the_reference():
    from flinkbuf.network import events

    there = {
        name
        for name, value in vars(events).items()
        if isinstance(value, type) and value.__module__ == events.__name__ and not name.startswith("_")
    }
    assert {name.rpartition(".")[2] for name in names_in(DOCS / "reference" / "events.md")} == there | {
        "event_from_bytes"
    }


LINK = re.compile(r"!?\[[^\]]*\]\((?!https?://|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))], ids=page_name
)
def test_links_lead_somewhere(page):
    for target in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def errors_in_the_sources():
    """All text of the package in which error messages stand, as one string without line breaks and quotes between."""
    files = [*ROOT.glob("flinkbuf/**/*.py"), *ROOT.glob("flinkbuf/_core/*.pyx"), *ROOT.glob("csrc/*/*.[ch]")]
    text = "\n".join(path.read_text("utf-8") for path in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)  # literals that Python joins


def test_every_message_of_the_troubleshooting_page_is_one_of_ours():
    """A heading there is a message; what varies in it is written as an ellipsis."""
    sources = errors_in_the_sources()
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    headings = re.findall(r"^### `(.+)`$", page.partition("## Before a job starts")[2], re.MULTILINE)
    assert len(headings) > 20
    for heading in headings:
        error, message = re.fullmatch(r"(?:(\w+Error): )?(.*)", heading).groups()
        assert error is None or hasattr(fb, error), f"there is no fb.{error}"
        for part in filter(None, (part.strip() for part in message.split("…"))):
            assert part in sources, f"no source says {part!r}"


def test_pictures_are_what_the_script_draws(tmp_path):
    subprocess.run([sys.executable, str(DOCS / "pictures.py"), str(tmp_path)], check=True, timeout=60)
    drawn = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    kept = {path.name: path.read_text("utf-8") for path in (DOCS / "assets").glob("*.svg")}
    assert drawn == kept, "run python docs/pictures.py"


class Resources(HTMLParser):
    """Collects what a browser would load for a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.found.append(given.get("src"))
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(given.get("href"))


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="make docs brings what builds the site")
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted(tmp_path.glob("**/*.html"))
    assert len(pages) > len(list(DOCS.glob("**/*.md"))) - 1
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text("utf-8"))
        elsewhere = [each for each in resources.found if each and re.match(r"(https?:)?//", each)]
        assert not elsewhere, f"{page.relative_to(tmp_path)} loads {elsewhere}"
