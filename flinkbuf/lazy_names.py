"""Public names of a package that bring their modules at their first use, so that a program loads what it needs."""

from collections.abc import Callable
from importlib import import_module


def bring(package: dict[str, object], module_of: dict[str, str], name: str) -> object:
    """Return a name of a package, which from then on is an attribute like any other: the body of its ``__getattr__``.

    Parameters
    ----------
    package : dict
        The package's ``globals()``.
    module_of : dict
        Where each of its names lives.
    name : str

    Raises
    ------
    AttributeError
        If it is none of them.

    Examples
    --------
    >>> package = {"__name__": "example"}
    >>> bring(package, {"sqrt": "math"}, "sqrt") is package["sqrt"]
    True
    """
    module = module_of.get(name)
    if module is None:
        raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
    value = package[name] = getattr(import_module(module), name)
    return value


def lazy_names(
    package: dict[str, object], names: dict[str, str]
) -> tuple[dict[str, str], list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return what a package of nothing but lazy names has: ``_MODULE_OF``, ``__all__``, ``__getattr__``, ``__dir__``.

    Parameters
    ----------
    package : dict
        The package's ``globals()``.
    names : dict
        By module, the names that live there, with spaces between.

    Examples
    --------
    >>> module_of, listed, getattribute, _ = lazy_names({"__name__": "example"}, {"math": "sqrt pi"})
    >>> module_of, listed, getattribute("sqrt")(4)
    ({'sqrt': 'math', 'pi': 'math'}, ['pi', 'sqrt'], 2.0)
    """
    module_of = {name: module for module, each in names.items() for name in each.split()}

    def bring_name(name: str) -> object:
        return bring(package, module_of, name)

    def all_names() -> list[str]:
        return sorted({*package, *module_of})

    return module_of, sorted(module_of), bring_name, all_names
