r"""RSE expressions: names, `attribute=value` and `*`, joined by `&`, `|` and `\` from left to right. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

TOKEN = re.compile(r"\s*([()&|\\]|[A-Za-z0-9_.*-]+(?:=[A-Za-z0-9_. -]+)?)")
EMPTY = "RSE Expression resulted in an empty set."


class BadExpression(ValueError):
    """The expression cannot be parsed or matches no storage."""


def resolve(expression: str, rses: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the sorted names that match the expression; `rses` maps each name to its attributes."""
    tokens = _tokens(expression)
    found, rest = _read(tokens, rses)
    if rest:
        raise BadExpression("Problem with parentheses.")
    if not found:
        raise BadExpression(EMPTY)
    return sorted(found)


def _tokens(expression: str) -> list[str]:
    tokens, position = [], 0
    while position < len(expression.rstrip()):
        match = TOKEN.match(expression, position)
        if match is None:
            raise BadExpression("Expression does not comply to RSE Expression syntax")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def _read(tokens: list[str], rses: Mapping[str, Mapping[str, str]]) -> tuple[set[str], list[str]]:
    """Evaluate terms up to the end or a closing bracket; all operators have equal precedence."""
    found, rest = _term(tokens, rses)
    while rest and rest[0] in "&|\\":
        operator = rest[0]
        other, rest = _term(rest[1:], rses)
        found = {"&": found & other, "|": found | other, "\\": found - other}[operator]
    return found, rest


def _term(tokens: list[str], rses: Mapping[str, Mapping[str, str]]) -> tuple[set[str], list[str]]:
    if not tokens or tokens[0] in ")&|\\":
        raise BadExpression("Problem with parentheses.")
    head, rest = tokens[0], tokens[1:]
    if head == "(":
        found, rest = _read(rest, rses)
        if not rest or rest[0] != ")":
            raise BadExpression("Problem with parentheses.")
        return found, rest[1:]
    if head == "*":
        return set(rses), rest
    if "*" in head:
        raise BadExpression("Expression does not comply to RSE Expression syntax")
    name, is_attribute, value = head.partition("=")
    if is_attribute:
        return {rse for rse, attributes in rses.items() if attributes.get(name) == value.strip()}, rest
    return {name} & set(rses), rest
