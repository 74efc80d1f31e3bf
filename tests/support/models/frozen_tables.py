"""What a frozen table holds, put together."""


def contents_of(frozen):
    found = {}
    for namespace, space, over in frozen.parts():
        into = found.setdefault(namespace, {})
        for token, value in space.items():
            if value is not None and not any(token in later for later in over or ()):
                into[token] = value
    return found
