"""How a language writes formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calspline._expression import Expression

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negative": 3}
ATOM = 4


@dataclass(frozen=True)
class Syntax:
    """How a language writes formulas.

    ``functions`` has its names of functions, where they differ; ``choice`` is its
    conditional, with the places ``{value}``, ``{low}``, ``{high}``, ``{inside}`` and
    ``{outside}``; ``cubic`` writes a curve, given its place ``z`` as text, and weights
    if it is several (see :meth:`Program.blended`). Calls longer than ``width`` have
    their arguments in lines of their own.
    """

    number: Callable[[float], str]
    functions: Mapping[str, str]
    choice: str
    cubic: Callable[..., str]
    width: int | None = None

    def write(self, formula: Expression) -> str:
        """The formula as text."""
        return self._write(formula)[0]

    def _write(self, formula: Expression) -> tuple[str, int]:
        """Text, and how strongly its parts hold together."""
        operation = formula.operation
        if operation == "number":
            return self.number(formula.value), 3 if formula.is_negative else ATOM
        if operation == "name":
            return formula.value, ATOM
        if operation == "between":
            value, inside, outside = (
                self.write(argument) for argument in formula.arguments
            )
            low, high = map(self.number, formula.value)
            return self.choice.format(
                value=value, low=low, high=high, inside=inside, outside=outside
            ), 0
        if operation == "cubic":
            x, *weights = formula.arguments
            return self.cubic(
                self.write(formula.value.place(x)),
                formula.value,
                *map(self.write, weights),
            ), ATOM
        if operation not in PRECEDENCE:
            function, arguments = (
                self.functions.get(operation, operation),
                [*map(self.write, formula.arguments)],
            )
            text = f"{function}({', '.join(arguments)})"
            if self.width is not None and len(text) > self.width and len(arguments) > 1:
                listed = ",\n".join(arguments).replace("\n", "\n  ")
                text = f"{function}(\n  {listed}\n)"
            return text, ATOM
        strength = PRECEDENCE[operation]
        if operation == "negative":
            return "-" + self._part(formula.arguments[0], ATOM), strength
        left, right = formula.arguments
        # Rounding depends on the order of operations, so a + (b + c) keeps its
        # parentheses.
        return (
            f"{self._part(left, strength)} {operation} "
            f"{self._part(right, strength + 1)}",
            strength,
        )

    def _part(self, formula: Expression, least: int) -> str:
        text, strength = self._write(formula)
        return text if strength >= least else f"({text})"
