"""Public names of a package that bring their modules at their first use, so that a program loads what it needs."""

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
