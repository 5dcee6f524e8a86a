"""The subset of CMSSW's configuration language that configurations of the lab and the tests use."""

from __future__ import annotations

from typing import Any


class Parameter:
    """A value with its type, such as untracked.uint32(5)."""

    def __init__(self, kind: str, *values: Any) -> None:
        self.kind = kind
        plain = [list(one) if isinstance(one, (list, tuple)) else one for one in values]
        several = kind.rpartition(".")[2][:1] in "vV"
        self._value: Any = plain[0] if len(plain) == 1 else (plain if several else None)
        if several and not isinstance(self._value, list):
            self._value = [self._value]

    def value(self) -> Any:
        return self._value

    def set_value(self, value: Any) -> None:
        self._value = value

    def append(self, value: Any) -> None:
        self._value.append(value)


class PSet:
    """Parameters by name. A plain value may only be given to a parameter that has a type already."""

    def __init__(self, **parameters: Any) -> None:
        for name, value in parameters.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, PSet)):
            self.__dict__[name] = value
        elif isinstance(self.__dict__.get(name), Parameter):
            self.__dict__[name].set_value(value)
        else:
            raise TypeError(
                f"{name} does not already exist, so it can only be set to a CMS python configuration type"
            )

    def parameterNames_(self) -> list[str]:
        return [name for name in self.__dict__ if not name.startswith("_")]


class Module(PSet):
    """A source, service, producer, filter or output module."""

    def __init__(self, type_: str, **parameters: Any) -> None:
        self.__dict__["_type"] = type_
        super().__init__(**parameters)

    def type_(self) -> str:
        return str(self.__dict__["_type"])


class Source(Module): ...


class SecSource(Module): ...


class Service(Module): ...


class EDProducer(Module): ...


class EDFilter(Module): ...


class EDAnalyzer(Module): ...


class OutputModule(Module): ...


class Process(PSet):
    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name
        super().__init__()

    def producers_(self) -> dict[str, EDProducer]:
        return {name: one for name, one in self.__dict__.items() if isinstance(one, EDProducer)}

    def filters_(self) -> dict[str, EDFilter]:
        return {name: one for name, one in self.__dict__.items() if isinstance(one, EDFilter)}

    def analyzers_(self) -> dict[str, EDAnalyzer]:
        return {name: one for name, one in self.__dict__.items() if isinstance(one, EDAnalyzer)}

    def outputModules_(self) -> dict[str, OutputModule]:
        return {name: one for name, one in self.__dict__.items() if isinstance(one, OutputModule)}


class _Types:
    """Makes parameters: cms.int32(5), cms.untracked.vstring("a", "b"), cms.untracked.PSet(input=…)."""

    PSet = PSet

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *values: Parameter(self._prefix + name, *values)


untracked = _Types("untracked.")
_tracked = _Types("")


def __getattr__(name: str) -> Any:
    return getattr(_tracked, name)
