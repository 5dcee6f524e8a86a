"""Static types of links: which types a link can deliver, and whether its sink accepts one of them.

A link is wrong only if its sink accepts none of these types, null aside. Unknown types fit everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from chains_app.cwl.types import ANY, NULL, Link, Step, array_of, item_types

Types = tuple[str, ...]
_NUMBERS = frozenset({"int", "long", "float", "double"})


def output_types(step: Step) -> dict[str, Types]:
    """Return the types of a step's outputs, by source. Those of an inner workflow or unknown tool are Any."""
    known = {one.id: one.types for one in step.tool.outputs} if step.tool is not None else {}
    depth = len(step.scatter) if step.scatter_method == "nested_crossproduct" else bool(step.scatter)
    found = {}
    for port in step.outputs:
        types = known.get(port, (ANY,))
        if step.when is not None:
            types = (*types, NULL)
        for _ in range(depth):
            types = (array_of(types),)
        found[f"{step.id}/{port}"] = types
    return found


def link_types(link: Link, known: Mapping[str, Types]) -> Types:
    """Return the types that the sources of a link deliver, merged and picked; Any if they are not known."""
    if not link.sources or link.value_from is not None or link.aggregate:
        return (ANY,)
    each = [known.get(source, (ANY,)) for source in link.sources]
    if link.link_merge == "merge_flattened":
        types: Types = (array_of(tuple(one for given in each for kind in given for one in item_types(kind))),)
    elif link.link_merge or len(each) > 1:
        types = (array_of(tuple(one for given in each for one in given)),)
    else:
        types = each[0]
    if not link.pick_value:
        return types
    picked = tuple(one for kind in types for one in item_types(kind) if one != NULL)
    if link.pick_value == "all_non_null":
        return tuple(array_of(picked) if kind.endswith("[]") else kind for kind in types)
    return picked


def fits(given: Types, sink: Types) -> bool:
    """Return whether the sink accepts one of the given types. Null alone is checked by the call."""
    kinds = [one for one in given if one != NULL]
    return not kinds or any(_fits(one, other) for one in kinds for other in sink)


def element_types(types: Types) -> Types:
    """Return the types of the elements of lists; Any if one of the types may be a list and is not known."""
    return tuple(one for kind in types if kind == ANY or kind.endswith("[]") for one in item_types(kind))


def _fits(given: str, sink: str) -> bool:
    if ANY in (given, sink) or given == sink or {given, sink} <= _NUMBERS:
        return True
    if given.endswith("[]") and sink.endswith("[]"):
        return fits(item_types(given), item_types(sink))
    texts = [one == "string" or one.startswith("enum:") for one in (given, sink)]
    return all(texts)
