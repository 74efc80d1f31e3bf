"""What nothing but tests calls is not in the product: functions of the core, of the bindings, of the package.

By name: one counts as used if it occurs in `csrc` or `flinkbuf` outside of what carries it, so in no body of its own,
no declaration, comment or docstring. A method that is called as many are (`close`) is not found, one with a name of its
own is. What users call is in the reference, or among PyFlink's names.
"""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Whose modules have PyFlink's paths: what they list in `__all__`, or define, a program may import.
PYFLINKS = ("flinkbuf/common/", "flinkbuf/datastream/")

# Roles of Flink that users have asked for by name, with all that these classes offer.
ASKED_FOR = {"BufferDebloater", "IOManager", "RecordDeserializer", "RecordSerializer"}
# What libraries call, or users on what they are given; and names that are put together.
CALLED_ELSEWHERE = {
    **dict.fromkeys(["connection_made", "data_received", "eof_received", "connection_lost"], "asyncio, of a protocol"),
    **dict.fromkeys(["pause_writing", "resume_writing"], "asyncio, of a protocol"),
    **dict.fromkeys(["cancelling", "uncancel", "get_coro", "get_context", "set_name"], "asyncio, of a task"),
    **dict.fromkeys(["readinto", "seekable", "writable"], "io, of a raw file"),
    "reducer_override": "pickle, of a pickler",
    "addInPlace": "PySpark, of an accumulator",
    **dict.fromkeys(["streamReader", "streamWriter"], "PySpark, of a data source"),
    **dict.fromkeys(["initialOffset", "latestOffset", "reportLatestOffset"], "PySpark, of a stream reader"),
    **dict.fromkeys(["getDefaultReadLimit", "prepareForTriggerAvailableNow"], "PySpark, of a stream reader"),
    **dict.fromkeys(
        ["getListState", "deleteIfExists", "listTimers", "appendValue", "appendList", "containsKey", "removeKey"],
        "processors of users, on Spark's handle and its states",
    ),
    "_missing_": "enum",
    "exec_module": "import, of a loader",
    "apply_to_keyed_state": "a broadcast function, on its context",
    "get_checkpoint_lock": "a source function, on its context",
    "flame_graph": "each layer calls the same of the next",
    **dict.fromkeys(
        ["TtlValueState", "TtlListState", "TtlMapState", "TtlReducingState", "TtlAggregatingState"],
        "state_backend.py puts the name together",
    ),
}
# What happens out of Python's sight, in threads and structs of the core: for tests there is no other way to see it.
ONLY_LOOKED_AT = {
    "hash_code_of": "compared with the hash codes that Flink wrote",
    "flushed_partition_count": "the flusher of the process: nothing is left behind",
    "flusher_turn_count": "the flusher of the process: it sleeps while nothing is dirty",
    "last_refusal": "why a server on the I/O thread turned a peer away",
    "wait_for_turn": "the I/O thread has run what was posted",
    "run_mailbox_step": "a task whose turns a test makes one by one",
}

WORD = re.compile(r"[A-Za-z_]\w*")
NOT_CODE_OF_C = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
NOT_CODE = re.compile(r"\"\"\".*?\"\"\"|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*", re.DOTALL)
# A declaration, a definition on one line, or one to the next line that has only a brace.
C_FUNCTION = re.compile(
    r"^(?!typedef|return|else)[a-z][^;{}()=#]*?\b(fb_\w+)\s*\([^;{}]*(?:;|\{[^\n]*\}$|\{.*?^\})",
    re.MULTILINE | re.DOTALL,
)
EXTERN = re.compile(r"^cdef extern[^\n]*:\n(?:[ \t]+[^\n]*\n|\n)+", re.MULTILINE)
FUNCTION = re.compile(
    r"( *)(?:(?:async +)?def +|(?:cdef|cpdef) [^=\n:(]*?(?<![\w.]))([A-Za-z_]\w*) *(?:\[[^\]\n]*\])?\((?=(.*))"
)
RESULT = re.compile(r"\)\s*->\s*([^\n]+):")
CLASS = re.compile(r"( *)(?:cdef )?class +(\w+)(.*)")


def code_of_c(text):
    return NOT_CODE_OF_C.sub(" ", text)


def code_of_python(text):
    """The text without docstrings and comments, line for line; other strings stay, since getattr takes one."""
    return NOT_CODE.sub(lambda found: found.group(1) or "\n" * found.group(0).count("\n"), EXTERN.sub("", text))


def c_functions(code):
    """Names of functions that a file declares or defines, with the text of that."""
    return [(found.group(1), found.group(0)) for found in C_FUNCTION.finditer(code)]


def indent_of(line):
    return len(line) - len(line.lstrip())


class Definition:
    """A class, function or method of Python or Cython, with its lines and what stands directly in it."""

    def __init__(self, lines, at, found):
        self.name, self.indent = found.group(2), len(found.group(1))
        end = at + 1
        while end < len(lines) and (
            not lines[end].strip() or indent_of(lines[end]) > self.indent or lines[end].lstrip().startswith(")")
        ):
            end += 1
        self.lines = lines[at:end]
        # A decorator that is called hands the function to someone, as a route of the page's server.
        above = at - 1
        while lines[above].startswith(" " * self.indent + "@"):
            above -= 1
        self.is_handed_on = any("(" in line for line in lines[above + 1 : at])
        self.is_class, self.members, self.leads_to = found.re is CLASS, [], []
        if self.is_class:
            self.members = [each for each in definitions(self.lines[1:]) if each.indent == self.indent + 4]
            bases = WORD.findall(found.group(3))
            self.leads_to = [*bases, *(base.lstrip("_") for base in bases)]  # an import may have renamed one
        elif result := RESULT.search("\n".join(self.lines)):
            self.leads_to = WORD.findall(result.group(1))


def definitions(lines):
    for at, line in enumerate(lines):
        found = CLASS.match(line) or FUNCTION.match(line)
        if found:
            yield Definition(lines, at, found)


def only_defined(names, carried, words):
    """Of `names`, those that occur nowhere but in the texts that carry them."""
    own = Counter()
    for name, text in carried:
        own[name] += WORD.findall(text).count(name)
    return {name for name in names if words[name] <= own[name]}


class Product:
    """What a tree's `csrc` and `flinkbuf` define and call."""

    def __init__(self, root):
        self.root = root
        core = [*root.glob("csrc/**/*.[ch]"), *root.glob("flinkbuf/**/*.h")]
        self.c = {path: code_of_c(path.read_text()) for path in core}
        python = [path for path in root.glob("flinkbuf/**/*.p*") if path.suffix in (".py", ".pyx", ".pxd")]
        self.python = {path: code_of_python(path.read_text()) for path in python}
        self.stubs = [code_of_python(path.read_text()) for path in root.glob("flinkbuf/_core/**/*.pyi")]
        self.definitions = {path: list(definitions(code.split("\n"))) for path, code in self.python.items()}
        self.words = Counter(word for code in self.python.values() for word in WORD.findall(code))

    def unused_of_c(self):
        """Functions of headers that nobody calls."""
        carried = [each for code in self.c.values() for each in c_functions(code)]
        declared = {name for path, code in self.c.items() if path.suffix == ".h" for name, _ in c_functions(code)}
        return only_defined(
            declared, carried, self.words + Counter(word for code in self.c.values() for word in WORD.findall(code))
        )

    def unused_of_python(self):
        """Classes, functions and methods that nobody names, whoever may be meant to."""
        carried = [(each.name, "\n".join(each.lines)) for found in self.definitions.values() for each in found]
        names = {
            each.name
            for path, found in self.definitions.items()
            for each in found
            if path.suffix != ".pxd" and not each.is_handed_on and not each.name.startswith("__")
        }
        return only_defined(names, carried, self.words)

    def names_of_users(self):
        """What the reference shows and PyFlink's modules give: with members, with bases, and with what these return."""
        pages = "\n".join(page.read_text() for page in self.root.glob("docs/reference/**/*.md"))
        names = set(re.findall(r"^::: flinkbuf[\w.]*\.(\w+)\s*$", pages, re.MULTILINE)) | ASKED_FOR
        for path in self.python:
            if path.relative_to(self.root).as_posix().startswith(PYFLINKS):
                names |= names_of_module(ast.parse(path.read_text()))
        known = defaultdict(list)
        for found in [*self.definitions.values(), *(definitions(code.split("\n")) for code in self.stubs)]:
            for each in found:
                known[each.name].append(each)
        ahead, seen, members = list(names), set(), set()
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                for each in known[name]:
                    public = [member for member in each.members if not member.name.startswith("_")]
                    members |= {member.name for member in public}
                    ahead += each.leads_to + [word for member in public for word in member.leads_to]
                    ahead += [member.name for member in public if member.is_class]
        return seen | members


def names_of_module(tree):
    """What a module lists in `__all__`; without one, what it defines for others."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__" and isinstance(node.value, ast.List):
            return set(ast.literal_eval(node.value))
    return {
        node.name
        for node in tree.body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")
    }


PRODUCT = Product(ROOT)


UNUSED = PRODUCT.unused_of_python() - PRODUCT.names_of_users()
EXEMPT = CALLED_ELSEWHERE.keys() | ONLY_LOOKED_AT.keys()


def test_each_function_of_the_core_is_called_by_the_product():
    assert not PRODUCT.unused_of_c()


def test_each_name_of_the_package_is_used_by_it_or_is_for_users():
    assert not UNUSED - EXEMPT, "delete these, with their tests; the tests of what they call stay"


def test_an_exemption_is_needed():
    assert not EXEMPT - UNUSED


def test_what_is_unused_would_be_found(tmp_path):
    for path, text in {
        "csrc/io/a.h": "/* fb_a_spare() */\nint fb_a_spare(int x);\nstatic inline int fb_a_used(void) { return 1; }\n",
        "csrc/io/a.c": "int fb_a_spare(int x) {\n  return x > 0 ? fb_a_spare(x - fb_a_used()) : 0;\n}\n",
        "flinkbuf/_core/a.pxd": 'cdef extern from "io/a.h":\n    int fb_a_spare(int x)\n\ncdef class Bound: pass\n',
        "flinkbuf/_core/a.pyx": "cdef class Bound:\n    cdef int step(self) except -1:\n        return 0\n",
        "flinkbuf/x.py": '"""`lonely` is told of."""\n\ndef lonely():\n    lonely()\n\ndef known():\n    known()\n',
        "flinkbuf/y.py": "from flinkbuf.x import known\n\n@route('/z')\ndef served():\n    pass\n",
        "flinkbuf/common/z.py": "class Builder:\n    def build(self) -> Built: ...\n\nclass Built(_Base): ...\n",
        "flinkbuf/base.py": "class Base:\n    def kept(self): ...\n    def _private(self): ...\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    product = Product(tmp_path)
    assert product.unused_of_c() == {"fb_a_spare"}
    unused = product.unused_of_python() - product.names_of_users()
    assert unused == {"Bound", "step", "lonely", "_private"}
