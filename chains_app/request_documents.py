"""The request document of a call: the tool's fields with all expressions evaluated, and the chain's names.

Directory inputs that no expression of the document mentions are the datasets to process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chains_app.cwl.expressions import evaluate, evaluate_all, references
from chains_app.cwl.types import Argument, Port, Tool, item_types
from chains_app.cwl.values import as_names
from chains_app.states import StepMode

STAND_IN_DATASET = "/StandIn/Template-Check-v1/RAW"
_STAND_INS = {"boolean": True, "int": 1, "long": 1, "float": 1.0, "double": 1.0, "string": "text"}


@dataclass(frozen=True, slots=True)
class CallContext:
    """Values that a chain adds to the document of one call."""

    request_name: str
    outputs: Sequence[str]
    requestor: str
    log_dataset: str = ""
    priority: int | None = None
    correlation_id: str = ""
    producer: str = ""  # the request whose outputs a streaming step takes one by one


def build_document(
    tool: Tool, *, inputs: Mapping[str, Any], position: int | None, context: CallContext
) -> dict[str, Any]:
    """Return the document of a call's request. Raise ExpressionError if an expression has no value."""
    values = {"inputs": inputs, "runtime": {"index": position}}
    document: dict[str, Any] = evaluate_all(tool.document, values)
    datasets = [name for port in input_ports(tool) for name in as_names(inputs.get(port.id))]
    if context.producer:
        document["input_from"] = context.producer
    elif datasets and not {"input_dataset", "input_datasets"} & document.keys():
        single = {"input_dataset": datasets[0]}
        document |= single if len(datasets) == 1 else {"input_datasets": list(dict.fromkeys(datasets))}
    if tool.command and tool.mode != StepMode.MERGE:
        payload = {"kind": "command", **document.get("payload_config", {})}
        document["payload_config"] = payload | {"command": list(command_line(tool.command, values))}
    document |= {"request_name": context.request_name, "output_datasets": list(context.outputs)}
    document.setdefault("requestor", context.requestor)
    if context.log_dataset:
        document["log_dataset"] = context.log_dataset
    if context.priority is not None:
        document["priority"] = context.priority
    if context.correlation_id:
        document["correlation_id"] = context.correlation_id
    return document


def input_ports(tool: Tool) -> list[Port]:
    """Return the inputs whose datasets are processed: those that no expression of the document mentions."""
    used = {one.segments[0] for one in references(tool.document) if one.root == "inputs" and one.segments}
    return [port for port in tool.inputs if port.is_dataset and port.id not in used]


def command_line(arguments: Iterable[Argument], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command line, as CWL binds inputs and arguments to it."""
    for one in arguments:
        value = values["inputs"].get(one.input) if one.input else None
        if one.value_from is not None:
            value = evaluate(one.value_from, {**values, "self": value})
        yield from _words(one, value)


def _words(argument: Argument, value: Any) -> Iterator[str]:
    if value is None or value is False or value == []:
        return
    if value is True:
        yield from [argument.prefix] if argument.prefix else []
        return
    if isinstance(value, list):
        if argument.item_separator is None:
            yield from [argument.prefix] if argument.prefix else []
            for one in value:
                yield from _words(Argument(), one)
            return
        value = argument.item_separator.join(str(one) for one in value)
    if argument.prefix and not argument.separate:
        yield f"{argument.prefix}{value}"
        return
    yield from [argument.prefix] if argument.prefix else []
    yield str(value)


def stand_ins(tool: Tool) -> dict[str, Any]:
    """Return a legal value for each input, so that the document can be checked before there is any data."""
    return {
        port.id: port.default if port.default is not None else _stand_in(port.types) for port in tool.inputs
    }


def _stand_in(types: Sequence[str]) -> Any:
    kind = next((one for one in types if one != "null"), "null")
    if kind.endswith("[]"):
        return [_stand_in(item_types(kind))]
    if kind.startswith("enum:"):
        return kind[5:].partition(",")[0]
    return STAND_IN_DATASET if kind == "Directory" else _STAND_INS.get(kind)
