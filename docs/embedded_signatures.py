"""For the API reference: leaves out the signature that Cython writes as the first line of a docstring.

The stubs (.pyi) have the same signature with better types, and that one is shown.
"""

import re
from typing import Any

from griffe import Extension, Object

SIGNATURE = re.compile(r"\w+(\.\w+)*\(.*\)( -> .*)?\n")


class EmbeddedSignatures(Extension):
    """Looks at every docstring once its module is loaded."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Drop the first line where it is a signature."""
        if obj.docstring is not None:
            found = SIGNATURE.match(obj.docstring.value + "\n")
            obj.docstring.value = obj.docstring.value[found.end() :] if found else obj.docstring.value
