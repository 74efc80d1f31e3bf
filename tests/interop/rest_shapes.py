"""What JSON looks like, and where two answers look different."""

import re

ID = re.compile(r"[0-9a-f]{32}")
MAPS = {"failureLabels", "extendedResources", "user-config", "accumulator-results", "serialized-user-task-accumulators"}
TEXTS_MAX = 100


class Shape:
    """What some values have in common, and in what they differ.

    Attributes
    ----------
    kinds : set of str
        JSON's; a whole number is an "integer". Java writes a number that is none as "NaN".
    fields : dict
        Of objects, by name.
    optional : set of str
        Fields that only some of these objects have.
    inner : Shape or None
        Of a list's elements, or a map's values: of an object that has ids for names.
    classes : dict
        Of objects that say of what class they are.
    texts : set of str
        The first ones.
    """

    def __init__(self, *values):
        self.kinds, self.fields, self.inner, self.classes, self.texts = set(), {}, None, {}, set()
        self._objects, self._counts = 0, {}
        for value in values:
            self.add(value)

    def add(self, value, name=""):
        kind = kind_of(value)
        self.kinds.add(kind)
        if kind == "text" and len(self.texts) < TEXTS_MAX:
            self.texts.add(value)
        elif kind == "list":
            for each in value:
                self._add_inner(each)
        elif kind == "object" and (name in MAPS or (value and all(map(ID.fullmatch, value)))):
            for each in value.values():
                self._add_inner(each)
        elif kind == "object" and "className" in value:
            self.classes.setdefault(value["className"], Shape())._add_fields(value)
        elif kind == "object":
            self._add_fields(value)

    def _add_inner(self, value):
        self.inner = self.inner or Shape()
        self.inner.add(value)

    def _add_fields(self, value):
        self._objects += 1
        for name, each in value.items():
            self._counts[name] = self._counts.get(name, 0) + 1
            if name == "children":  # of a tree: they look like their parent
                for child in each:
                    self.add(child)
                each = None
            self.fields.setdefault(name, Shape()).add(each, name)

    @property
    def optional(self):
        return {name for name, count in self._counts.items() if count < self._objects}

    def at(self, path):
        """Yield the shapes at a path such as ``.jobs[].state``."""
        shapes = [self]
        for step in re.findall(r"\[\]|\.[^.\[]+", path):
            if step == "[]":
                shapes = [each.inner for each in shapes if each.inner is not None]
            else:
                owners = [owner for each in shapes for owner in (each, *each.classes.values())]
                shapes = [owner.fields[step[1:]] for owner in owners if step[1:] in owner.fields]
        return shapes


def kind_of(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float) or value == "NaN":
        return "number"
    return {str: "text", list: "list", dict: "object"}[type(value)]


def differences(flink, ours, at=""):
    """Yield (path, what is different there) where ours is not what Flink gives."""
    if not flink.kinds or not ours.kinds:
        return
    # A whole number will do where Flink has a number; also where it has both, as "NaN" beside 0.
    have = {"number" if each == "integer" and "number" in flink.kinds else each for each in ours.kinds}
    if have != (flink.kinds - {"integer"} if "number" in flink.kinds else flink.kinds):
        yield at, f"{'|'.join(sorted(ours.kinds))} for {'|'.join(sorted(flink.kinds))}"
    if "object" in flink.kinds & ours.kinds:
        yield from _of_objects(flink, ours, at)
        for name in flink.classes.keys() & ours.classes.keys():
            yield from _of_objects(flink.classes[name], ours.classes[name], at)
    if flink.inner is not None and ours.inner is not None:
        yield from differences(flink.inner, ours.inner, f"{at}[]")
    elif flink.inner is not None and flink.kinds & ours.kinds:
        yield f"{at}[]", "nothing for something"
    elif ours.inner is not None and flink.kinds & ours.kinds:
        yield f"{at}[]", "something for nothing"


def _of_objects(flink, ours, at):
    for name in sorted(flink.fields.keys() | ours.fields.keys()):
        here = f"{at}.{name}"
        if name not in ours.fields:
            yield here, "missing"
        elif name not in flink.fields:
            yield here, "more than Flink has"
        else:
            if (name in flink.optional) != (name in ours.optional):
                yield here, "always for sometimes" if name in flink.optional else "sometimes for always"
            yield from differences(flink.fields[name], ours.fields[name], here)
