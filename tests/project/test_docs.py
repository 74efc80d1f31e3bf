"""What README and docs/ show is true: their Python runs, their output is real, their links and names are there.

Python is run as it is printed, page by page: each page in a process of its own, in an empty directory, where a user's
settings would lead it (`docs_page`). Nothing is set up that the page does not show.
"""

import ast
import builtins
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import pytest
from support.programs import docs_page
from support.programs.docs_page import blocks_of

import flinkbuf as fb

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
PAGE_S = 240  # several Spark jobs on a busy machine take a while

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not part of this installation")


def page_name(page):
    return str(page.relative_to(ROOT))


def needs_spark(page):
    return any("SparkSession" in block.text and not block.left_out for block in blocks_of(page.read_text("utf-8")))


RUN = [page for page in PAGES if any(not block.left_out for block in blocks_of(page.read_text("utf-8")))]
WITH_SPARK = [page for page in RUN if needs_spark(page)]


def of_a_user():
    """The environment of someone who has activated the virtual one and set nothing."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("FLINKBUF_", "PYSPARK_"))},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),  # what is tested, whatever is installed
        "COLUMNS": "100",
    }


def run_page(page, folder, **variables):
    done = subprocess.run(
        [sys.executable, docs_page.__file__, str(page)],
        cwd=folder,
        env={**of_a_user(), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PAGE_S,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("page", [page for page in RUN if page not in WITH_SPARK], ids=page_name)
def test_the_python_of_a_page_runs_as_it_is_printed(page, tmp_path):
    code, said = run_page(page, tmp_path)
    assert code == 0, said


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    """Where a JVM listens that pages make their sessions in, one after the other: its start takes longest."""
    from pyspark.java_gateway import launch_gateway

    from flinkbuf.spark.java import use_java

    use_java()
    # Compiled plainly: no page runs long enough to win by more.
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    environment = {**of_a_user(), "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": options}
    with mock.patch.dict(os.environ, environment, clear=True):
        gateway = launch_gateway(popen_kwargs={"cwd": tmp_path_factory.mktemp("jvm"), "stderr": subprocess.DEVNULL})
    parameters = gateway.gateway_parameters
    yield {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    gateway.shutdown()
    gateway.proc.stdin.close()  # which ends it
    gateway.proc.wait(30)


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [page if page.name == "README.md" else pytest.param(page, marks=pytest.mark.long) for page in WITH_SPARK],
    ids=page_name,
)
def test_the_python_of_a_page_runs_on_spark_as_it_is_printed(page, jvm, tmp_path):
    code, said = run_page(page, tmp_path, **jvm)
    assert code == 0, said


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_hides_nothing_that_its_code_needs(page):
    text = page.read_text("utf-8")
    assert "<!-- first:" not in text
    for block in blocks_of(text):
        if block.left_out:
            assert block.left_out.startswith("it needs "), block
            before = "\n".join(text.splitlines()[: block.line - 1])
            assert block.left_out.removeprefix("it needs ") in before.replace("\n", " ").rpartition("<!--")[0][-400:], (
                f"{page.name}, line {block.line}: the page does not say that {block.left_out}"
            )


def names_not_brought(code):
    """Names that code uses and neither brings nor makes: a restart may hide that a function fails for one."""
    tree = ast.parse(code)
    made = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            made.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler):
            made.add(node.name)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - made


@pytest.mark.parametrize("page", RUN, ids=page_name)
def test_a_page_brings_every_name_that_it_uses(page):
    blocks = [block for block in blocks_of(page.read_text("utf-8")) if block.language == "python"]
    plain = [block.text for block in blocks if ">>> " not in block.text and not block.left_out]
    assert not names_not_brought("".join(plain))


def test_each_program_of_the_readme_is_whole():
    for block in blocks_of((ROOT / "README.md").read_text("utf-8")):
        assert not names_not_brought(block.text), f"README.md, line {block.line}"


def test_a_name_that_a_page_does_not_bring_would_be_found():
    assert names_not_brought("import os\ndef f(n):\n    os.kill(n, signal.SIGKILL)\n") == {"signal"}


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("```python\nprint(1)\n```\n<!-- output -->\n```text\n1\n```\n", True),
        ("```python\nprint(1)\n```\n<!-- output -->\n```text\n2\n```\n", False),
        ("```python\nprint('a b c')\n```\n<!-- output -->\n```text\na ... c\n```\n", True),
        ("```python\nx = 2\n```\ntext\n```python\n>>> x\n2\n```\n", True),
        ("```python\n>>> 1 + 1\n3\n```\n", False),
        ("```python\nraise ValueError\n```\n", False),
        ("<!-- run: no: it needs a server -->\n```python\nraise ValueError\n```\n", True),
        ("```python\nimport os\nos.system('echo 1')\n```\n<!-- output -->\n```text\n1\n```\n", True),
        ("```python\n# two.py\nprint(2)\n```\n```sh\npython two.py\n```\n<!-- output -->\n```text\n2\n```\n", True),
        ("```sh\necho 1\n```\n<!-- output -->\n```text\n2\n```\n", False),
        ("```sh\nrm -rf /nothing\n```\n```python\nimport os\nassert os.listdir() == []\n```\n", True),
    ],
)
def test_a_page_that_says_what_is_not_so_would_be_found(text, is_true, tmp_path):
    (tmp_path / "page").mkdir()
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    code, said = run_page(page, tmp_path / "page")
    assert (code == 0) is is_true, said


def names_in(*pages):
    """Return the dotted names that pages of the reference show."""
    text = "".join(page.read_text("utf-8") for page in pages)
    return re.findall(r"^::: flinkbuf\.([\w.]+)$", text, re.MULTILINE)


def test_every_public_name_is_in_the_reference():
    shown = names_in(*(DOCS / "reference").glob("*.md"))
    last_parts = {name.rpartition(".")[2] for name in shown}
    assert len(last_parts) == len(shown), "a name is in the reference twice"
    missing = {*fb.__all__, *fb._SUBJECT_OF} - {"__version__"} - last_parts
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
    files = [*ROOT.glob("flinkbuf/**/*.py"), *ROOT.glob("flinkbuf/_core/*/*.pyx"), *ROOT.glob("csrc/*/*.[ch]")]
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
        assert error is None or hasattr(fb.errors, error), f"there is no fb.errors.{error}"
        for part in filter(None, (part.strip() for part in message.split("…"))):
            assert part in sources, f"no source says {part!r}"


def test_pictures_are_what_the_script_draws(tmp_path):
    subprocess.run([sys.executable, str(DOCS / "pictures.py"), str(tmp_path)], check=True, timeout=60)
    drawn = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    kept = {path.name: path.read_text("utf-8") for path in (DOCS / "assets").glob("*.svg")}
    kept.pop("nexmark.svg", None)  # drawn of what was measured, by bench/nexmark/page.py
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


@pytest.mark.long
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
