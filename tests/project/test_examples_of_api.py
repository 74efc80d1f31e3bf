"""What users of streams call has an example; make test runs the examples, here is only looked whether they are there.

A method has an example of its own, in which it stands. It needs none where another one shows it: a getter is called by
the example of what sets it, a method that users write is written by the example of its class. What does nothing but
raise shows nothing.
"""

import doctest
import inspect
import re
from abc import ABC, abstractmethod
from typing import NoReturn

import pytest

from flinkbuf import datastream
from flinkbuf.datastream import state

CLASSES = {
    name: each
    for module in (datastream, state)
    for name in module.__all__
    if inspect.isclass(each := getattr(module, name))
}

# By name, and why there is no example.
WITHOUT = {
    "AppendingState": "ReducingState and AggregatingState show it",
    "CheckpointStorage": "it has no methods; what derives from it has examples",
    "CheckpointingMode": "CheckpointConfig.set_checkpointing_mode shows it",
    "ExternalizedCheckpointRetention": "CheckpointConfig.set_externalized_checkpoint_retention shows it",
    "MergingState": "ReducingState and AggregatingState show it",
    "RuntimeExecutionMode": "StreamExecutionEnvironment.set_runtime_mode shows it",
    "State": "each kind of state shows it",
    "StateBackend": "it has no methods; what derives from it has examples",
    "StreamExecutionEnvironment.close": "it does nothing",
}

PARSER = doctest.DocTestParser()


def code_of(docstring):
    """Return what the examples of a docstring run."""
    return "".join(example.source for example in PARSER.get_examples(docstring or ""))


def methods_of(cls):
    """Return the public methods of a class, those that it inherits of ours too, by name.

    One that says nothing of what it overrides does the same in its own way: that one counts. Those of a binding are
    shown by the example of the class.
    """
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith(("builtins", "typing", "abc", "enum", "flinkbuf._core")):
            continue
        for name, each in vars(base).items():
            method = getattr(each, "__func__", each)
            is_method = inspect.isroutine(method) or isinstance(method, property)
            if not name.startswith("_") and is_method and (method.__doc__ or name not in found):
                found[name] = method
    return found


def is_shown(name, method, of_class, of_all):
    """Return whether an example shows a method: its own, that of its class, or one of all that the class has."""
    function = method.fget if isinstance(method, property) else method
    returns = getattr(function, "__annotations__", {}).get("return")
    if returns in (NoReturn, "NoReturn") or re.search(rf"\b{name}\b", code_of(function.__doc__)):
        return True
    if re.search(rf"def {name}\(", of_class):
        return True
    if isinstance(method, property):
        return bool(re.search(rf"\.{name}\b", of_all))
    called = rf"\.{name}\("
    if getattr(method, "__isabstractmethod__", False) and re.search(called, of_class):
        return True
    return name.startswith(("get_", "is_")) and bool(re.search(called, of_all))


def without_example(*classes):
    """Return the methods that no example shows, as "Class.method"; one that several have is shown by one of them."""
    shown, missing = set(), []
    for cls in classes:
        methods = methods_of(cls)
        of_class = code_of(cls.__doc__)
        of_all = of_class + "".join(code_of(method.__doc__) for method in methods.values())
        for name, method in methods.items():
            if is_shown(name, method, of_class, of_all):
                shown.add(method)
            else:
                missing.append((cls, name, method))
    return [f"{cls.__name__}.{name}" for cls, name, method in missing if method not in shown]


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - WITHOUT.keys()))
def test_a_class_has_an_example(name):
    assert code_of(CLASSES[name].__doc__)


def test_each_method_is_shown_by_an_example():
    assert sorted(set(without_example(*CLASSES.values())) - WITHOUT.keys()) == []


@pytest.mark.parametrize("name", CLASSES)
def test_examples_stand_at_the_end_of_a_docstring(name):
    for each in (CLASSES[name], *methods_of(CLASSES[name]).values()):
        sections = re.findall(r"^(\w[\w ]*)\n-+$", inspect.getdoc(each) or "", re.MULTILINE)
        assert "Examples" not in sections[:-1], each
        assert bool(code_of(each.__doc__)) == ("Examples" in sections), each


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_said_to_have_no_example_has_none(name):
    cls, _, method = name.partition(".")
    assert not code_of((methods_of(CLASSES[cls])[method] if method else CLASSES[cls]).__doc__)


class Abstract(ABC):
    """Has methods that users write.

    >>> class Written(Abstract):
    ...     def write(self): ...
    """

    @abstractmethod
    def write(self): ...

    @abstractmethod
    def write_not(self): ...


class Sized:
    """Has methods that users call."""

    def set_size(self, size):
        """Set it.

        >>> Sized().set_size(3).get_size()
        3
        """
        self.size = size
        return self

    def get_size(self):
        return self.size

    def get_colour(self):
        """Is named, but not called by an example: Sized().get_colour()."""

    def set_colour(self, colour): ...

    def refuse(self) -> NoReturn:
        raise RuntimeError


class Coloured(Sized):
    """Inherits from one whose methods have examples, and has one for a method that has none there.

    >>> Coloured().get_colour()
    """


class Changed(Sized):
    """Has a method whose example went away."""

    def set_size(self, size):
        """Set it."""


def test_a_method_without_an_example_would_be_found():
    assert without_example(Abstract) == ["Abstract.write_not"]
    assert without_example(Sized) == ["Sized.get_colour", "Sized.set_colour"]
    assert without_example(Sized, Coloured) == ["Sized.set_colour", "Coloured.set_colour"]
    assert without_example(Changed)[:2] == ["Changed.set_size", "Changed.get_size"]
