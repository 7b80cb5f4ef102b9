"""Calibrators as source code: what languages have in common when written, and what each says in its own way."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calspline.export.plan import formula_of, title
from calspline.expression import (
    ROW_OPERATIONS,
    Constant,
    Expression,
    Formula,
    Pieces,
    Program,
    Syntax,
    name,
    names_in,
    parts,
    substituted,
)

WIDTH = 100


@dataclass(frozen=True)
class Language:
    """How a language writes programs. Texts in braces are places to be filled in.

    Parameters
    ----------
    functions, choice : dict and str
        Functions and the conditional, as in :class:`~calspline.expression.Syntax`.
    helpers : dict
        Sources of functions that are written if they are used: ``cubic``, and operations on rows. A function is named
        as the operation is, unless ``functions`` says otherwise.
    check : callable
        The lines that refuse what is no score, given the formula.
    head : callable
        The first lines, given the title, the formula and the source to come.
    one, many : str
        How ``calibrate`` begins for two classes and for more.
    part : str
        How the function of one class begins: ``{j}``, ``{arguments}``.
    argument, no_argument : str
        An argument of it, and what stands for none.
    body : str
        A function: ``{begin}``, ``{lines}``.
    step : str
        A number gets a ``{name}``, from its ``{value}``.
    row : str
        A row gets a ``{name}``, from the ``{value}`` of its element ``j`` out of ``{m}``.
    row_of : str
        The same, from the elements in ``{items}``.
    row_call : str
        The same, from a ``{function}`` and its ``{arguments}``.
    result, row_result : str
        Return a ``{value}``, and a row from a ``{function}`` and its ``{arguments}``.
    cubic : str
        A curve at ``{z}``, given the ``{table}`` of its ``{n}`` pieces.
    table, constant : str
        A table of pieces: ``{name}``, ``{rows}``. A row or matrix: ``{name}``, ``{size}``, ``{value}``.
    brackets : str
        Those of lists.
    gap : str
        Between functions.
    """

    functions: Mapping[str, str]
    choice: str
    helpers: Mapping[str, str]
    check: Callable[[Formula], list[str]]
    head: Callable[[str, Formula, str], str]
    one: str
    many: str
    part: str
    body: str
    step: str
    row: str
    row_of: str
    row_call: str
    result: str
    row_result: str
    table: str
    constant: str
    cubic: str = "cubic({z}, {table})"
    argument: str = "{}"
    no_argument: str = ""
    brackets: str = "[]"
    gap: str = "\n\n"


def write(calibrator: Any, language: Language) -> str:
    """A fitted calibrator as source code."""
    return _Source(formula_of(calibrator), language).text()


@dataclass
class _Source:
    formula: Formula
    language: Language
    blocks: list[str] = field(default_factory=list)
    """Tables and constants, as they come up."""
    used: set[str] = field(default_factory=set)
    """Helpers."""

    def text(self) -> str:
        """All of it."""
        formula, language = self.formula, self.language
        functions = self._one() if len(formula.classes) == 2 else self._many()
        helpers = [source for helper, source in language.helpers.items() if helper in self.used]
        below = language.gap.join([*self.blocks, *helpers, *functions]) + "\n"
        return language.head(title(formula.classes), formula, below) + language.gap + below

    def _one(self) -> list[str]:
        return [self._function(self.language.one, self.language.check(self.formula), self.formula.program)]

    def _many(self) -> list[str]:
        language, program = self.language, self.formula.program
        m, lines = len(self.formula.classes), language.check(self.formula)
        functions: list[str] = []
        for variable, value in program.steps:
            if value.operation == "classes":
                functions, items = self._classes(value)
                listed = "\n".join(f"    {item}," for item in items)
                lines += language.row_of.format(name=variable, items=listed).split("\n")
            elif value.operation in ROW_OPERATIONS:
                lines += language.row_call.format(name=variable, **self._called(value)).split("\n")
            else:
                elements = {row: name(f"{row}[j]") for row in names_in(value)}
                element = self._write(substituted(value, elements, lambda row: name(f"{self._constant(row)}[j]")))
                lines += language.row.format(name=variable, value=element, m=m).split("\n")
        lines += language.row_result.format(**self._called(program.result)).split("\n")
        return [*functions, self._body(language.many, lines)]

    def _called(self, value: Expression) -> dict[str, str]:
        """Function and arguments of an operation on rows."""
        self.used.add(value.operation)
        arguments = [str(argument.value) for argument in value.arguments]
        if isinstance(value.value, Constant):
            arguments.insert(0, self._constant(value.value))
        return {
            "function": self.language.functions.get(value.operation, value.operation),
            "arguments": ", ".join(arguments),
        }

    def _classes(self, value: Expression) -> tuple[list[str], list[str]]:
        """Functions of the classes, and their values."""
        assert isinstance(value.value, list)
        functions, items = [], []
        rows = dict(zip(("p", "rest"), (str(row.value) for row in value.arguments), strict=False))
        for j, program in enumerate(value.value):
            listed = ", ".join(map(self.language.argument.format, program.arguments)) or self.language.no_argument
            functions.append(self._function(self.language.part.format(j=j, arguments=listed), [], program))
            given = ", ".join(f"{rows[argument]}[{j}]" for argument in program.arguments)
            items.append(self.language.part.split("(")[0].split()[-1].format(j=j) + f"({given})")
        return functions, items

    def _function(self, begin: str, lines: list[str], program: Program) -> str:
        steps = [self.language.step.format(name=step, value=self._write(value)) for step, value in program.steps]
        result = self.language.result.format(value=self._write(program.result))
        return self._body(begin, [*lines, *steps, result])

    def _body(self, begin: str, lines: list[str]) -> str:
        return self.language.body.format(begin=begin, lines="\n".join("    " + line for line in lines))

    def _write(self, formula: Expression) -> str:
        language = self.language
        return Syntax(repr, language.functions, language.choice, self._cubic).write(formula)

    def _cubic(self, z: str, pieces: Pieces) -> str:
        self.used.add("cubic")
        table = f"PIECES_{len(self.blocks)}" if self._curves > 1 else "PIECES"
        opening, closing = tuple(self.language.brackets)
        rows = [
            f"    {opening}{', '.join(map(repr, [start, *cubic]))}{closing},"
            for start, cubic in zip(pieces.starts, pieces.coefficients, strict=True)
        ]
        self.blocks.append(self.language.table.format(name=table, rows="\n".join(rows)))
        return self.language.cubic.format(z=z, table=table, n=len(rows))

    @property
    def _curves(self) -> int:
        """How many curves there are to write."""
        formulas = self.formula.program.formulas
        inner = [each.value for each in formulas if isinstance(each.value, list)]
        formulas += [formula for programs in inner for program in programs for formula in program.formulas]
        return sum(part.operation == "cubic" for formula in formulas for part in parts(formula))

    def _constant(self, constant: Constant) -> str:
        brackets = self.language.brackets
        matrix = isinstance(constant.values[0], list)
        value = _matrix(constant.values, brackets) if matrix else bracketed(constant.values, brackets)
        size = "[{0}][{0}]" if matrix else "[{0}]"
        size = size.format(len(constant.values))
        self.blocks.append(self.language.constant.format(name=constant.name, size=size, value=value))
        return constant.name


def bracketed(values: Iterable[float], brackets: str, indent: str = "") -> str:
    """Numbers in brackets: in one line, or in as many of bounded width as they need."""
    items = [repr(value) for value in values]
    whole = f"{brackets[0]}{', '.join(items)}{brackets[1]}"
    if len(indent) + len(whole) <= WIDTH:
        return whole
    inner = indent + "    "
    lines = textwrap.wrap(", ".join(items) + ",", WIDTH, initial_indent=inner, subsequent_indent=inner)
    return "\n".join([brackets[0], *lines, indent + brackets[1]])


def _matrix(rows: Iterable[Iterable[float]], brackets: str) -> str:
    """A matrix, a row in a line or more."""
    lines = [f"    {bracketed(row, brackets, '    ')}," for row in rows]
    return "\n".join([brackets[0], *lines, brackets[1]])
