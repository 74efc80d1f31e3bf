"""Runs what one page of the documentation prints, as a reader does who copies it: ``python docs_page.py PAGE``.

The process is fresh, its directory is empty, and nothing is set but what the page sets. From the top to the bottom:

* Python is run, all of a page in one namespace; a block with ``>>>`` is a doctest;
* Python whose first line is a comment with a file's name, ``# delays.py``, becomes that file;
* a command (``sh``) is run if its output follows;
* what a block prints, the processes that it starts included, is compared with the ``text`` block under it, if that one
  follows ``<!-- output -->``. There ``...`` stands for anything;
* ``<!-- run: no: it needs … -->`` before a block leaves it out: it needs what no reader has, and the page says so.
"""

import contextlib
import doctest
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?P<notes>(?:^<!--(?:(?!-->).)*-->\n)*)^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
FILE_NAME = re.compile(r"# ([\w.-]+\.\w+)\n")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    """One fenced block that is to be run."""

    line: int
    language: str
    text: str
    expected: str | None = None
    left_out: str = ""

    @property
    def file_name(self) -> str | None:
        """The file that it is to become."""
        found = FILE_NAME.match(self.text) if self.language == "python" else None
        return found and found[1]


def blocks_of(text: str) -> list[Block]:
    """Return what is to be run of a page, with what it should print."""
    blocks: list[Block] = []
    for match in FENCE.finditer(text):
        notes, language = match["notes"], match["language"]
        line = text.count("\n", 0, match.start("text")) + 1
        if language == "text" and "<!-- output -->" in notes:
            assert blocks and blocks[-1].expected is None, f"line {line}: this output belongs to no block"
            blocks[-1].expected = match["text"]
        elif language in ("python", "sh"):
            reason = re.search(r"<!-- run: no: (.*?) -->", notes)
            blocks.append(Block(line, language, match["text"], left_out=reason[1] if reason else ""))
    return [block for block in blocks if block.language == "python" or block.expected is not None]


@contextlib.contextmanager
def printed() -> Iterator[list[str]]:
    """Give what comes to standard output meanwhile, whichever process writes it."""
    texts: list[str] = []
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile("w+b") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield texts
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            texts.append(file.read().decode())


def run(block: Block, page: Path, namespace: dict) -> None:
    """Run one block; the traceback of an error names page and line."""
    if block.file_name is not None:
        Path(block.file_name).write_text(block.text, "utf-8")
        return
    if block.language == "python" and ">>> " in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, namespace, page.name, str(page), block.line - 1)
        report: list[str] = []
        failures = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(
            test, out=report.append, clear_globs=False
        )
        namespace.update(test.globs)
        assert not failures.failed, "".join(report)
        return
    with printed() as texts:
        if block.language == "sh":
            subprocess.run(block.text, shell=True, stderr=subprocess.STDOUT, timeout=120)
        else:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
    if block.expected is not None:
        got = texts[0]
        assert doctest.OutputChecker().check_output(block.expected, got, FLAGS), (
            f"{page.name}, line {block.line}, prints\n{got}\nand the page says\n{block.expected}"
        )


def run_page(page: Path) -> None:
    """Run all blocks of a page, as one program."""
    program = types.ModuleType("__main__")
    program.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = program
    for block in blocks_of(page.read_text("utf-8")):
        if not block.left_out:
            run(block, page, program.__dict__)


def stop_spark() -> None:
    """The JVM of the pages has one context at a time."""
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()


if __name__ == "__main__":
    sys.path[:1] = [""]  # as python has it that is given no file
    sys.stdout.reconfigure(line_buffering=True)
    try:
        run_page(Path(sys.argv[1]))
    finally:
        stop_spark()
