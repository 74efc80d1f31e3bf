"""Whether a function of the user can be seen to decide by its arguments alone, so that it decides the same again."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

_CONSTANTS = (int, float, complex, str, bytes, range, type(None), type(Ellipsis))
_MODULES = frozenset(
    (
        "binascii",
        "bisect",
        "builtins",
        "cmath",
        "hashlib",
        "math",
        "operator",
        "string",
        "struct",
        "unicodedata",
        "zlib",
    )
)
_MODULES_IN_C = frozenset(("_bisect", "_hashlib", "_operator", "_struct"))  # where functions of these come from
_ODD_BUILTINS = frozenset(("__import__", "compile", "eval", "exec", "globals", "id", "input", "locals", "open", "vars"))
_CHANGES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_STAR"))


def is_pure(function: object) -> bool:
    """Whether a function reaches nothing that may change between two calls.

    That holds for a plain function of Python whose globals, closure and defaults are constants, other such functions,
    and modules that only compute; it may hold for others, too, which cannot be seen through.

    Examples
    --------
    >>> count = [0]
    >>> is_pure(lambda record, n: len(record) % n), is_pure(lambda record, n: count[0] % n)
    (True, False)
    """
    return _is_constant(function, set())


def _is_constant(value: object, seen: set[int]) -> bool:
    if isinstance(value, _CONSTANTS) or id(value) in seen:
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(_is_constant(part, seen) for part in value)
    if isinstance(value, ModuleType):
        return value.__name__ in _MODULES
    if isinstance(value, BuiltinFunctionType):
        home = value.__module__ if isinstance(value.__self__, ModuleType) else None  # else a method: of what?
        return home in _MODULES | _MODULES_IN_C and value.__name__ not in _ODD_BUILTINS
    if isinstance(value, type):
        return value.__module__ == "builtins"
    if type(value) is not FunctionType or value.__dict__:
        return False
    seen.add(id(value))
    try:
        closure = [cell.cell_contents for cell in value.__closure__ or ()]
    except ValueError:  # a cell that is still empty
        return False
    reached = [*closure, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    for instruction in _instructions(value.__code__):
        name = instruction.argval
        if instruction.opname in _CHANGES:
            return False
        if instruction.opname == "STORE_DEREF" and name in value.__code__.co_freevars:
            return False
        if instruction.opname == "IMPORT_NAME" and name not in _MODULES:
            return False
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            reached.append(value.__globals__.get(name, getattr(builtins, name, ...)))
    return all(_is_constant(each, seen) for each in reached)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield those of code and of the functions, comprehensions and classes written in it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
