"""Would the tests notice? Small changes to the code, one at a time, each run against the tests of its area.

    python -m benchmarks.mutation --sample 100 --results mutation.jsonl

A mutant that no test notices has survived, and is printed with its line. Mutants are
forks of a process that has imported the slow packages, so that each costs little more
than its tests. mutmut does not run with this version of pytest, and a process per
mutant, as cosmic-ray has it, spends most of its time on imports.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calspline"
AREAS = {
    "fitting": ["tests/fitting", "tests/golden/test_fits.py"],
    "multiclass": ["tests/multiclass", "tests/golden/test_fits.py"],
    "maps": ["tests/test_curve.py", "tests/golden/test_fits.py"],
    "fits": ["tests/calibrators", "tests/golden/test_fits.py"],
    "evaluation": ["tests/golden/test_evaluation.py", "tests/evaluation"],
    "operations": ["tests/golden/test_evaluation.py", "tests/test_expected.py"],
    "export": ["tests/golden/test_exports.py", "tests/export"],
    "transforms": ["tests/test_transforms.py", "tests/golden/test_fits.py"],
    "histograms": ["tests/test_histogram.py", "tests/golden/test_fits.py"],
    "_input": ["tests/faults/calibrators", "tests/golden/test_messages.py"],
}
"""Folders and files of the package, and their tests, the nearest first."""
ONLY = "not (engine or process or browser or site or surface or slow or thorough)"
"""Tests that start nothing: a mutant is a fork."""
SECONDS = 300
"""Of processor time for one mutant; one that takes longer is in an endless loop."""
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Mod: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changes(node: Any) -> Iterator[ast.AST]:
    """What a node may be changed to."""
    changed: Any
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in SWAPS:
                ops = [
                    SWAPS[type(op)]() if j == i else other
                    for j, other in enumerate(node.ops)
                ]
                yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)):
        if type(node.op) in SWAPS:
            changed = copy.copy(node)
            changed.op = SWAPS[type(node.op)]()
            yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield node.operand
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield ast.Constant(node.value + 1)
        elif isinstance(node.value, float):
            yield ast.Constant(2.0 * node.value or 1.0)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(None)
    elif isinstance(node, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(node, bound) is not None:
                changed = copy.copy(node)
                setattr(changed, bound, None)
                yield changed
    elif isinstance(node, (ast.If, ast.IfExp)):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every place in code that holds a node: its parent, field and index. Types are not code."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in items:
            if isinstance(child, ast.AST):
                yield node, field, index
                yield from places(child)


def mutants(path: Path) -> Iterator[tuple[dict[str, Any], ast.Module]]:
    """Every mutant of a file: where it is and what it says, and its code."""
    text = path.read_text()
    sites = list(places(ast.parse(text)))
    for site in range(len(sites)):
        parent, field, index = sites[site]
        node = (
            getattr(parent, field) if index is None else getattr(parent, field)[index]
        )
        for variant in range(sum(1 for _ in changes(node))):
            tree = ast.parse(text)  # one of its own, as the change is made in place
            parent_, field, index = list(places(tree))[site]
            value = getattr(parent_, field)
            old = value if index is None else value[index]
            new = list(changes(old))[variant]
            was: str = ast.unparse(old)
            near: Any = old if hasattr(old, "lineno") else parent_
            if index is None:
                setattr(parent_, field, new)
            else:
                value[index] = new
            ast.fix_missing_locations(tree)
            place = {
                "file": str(path.relative_to(SOURCE)),
                "line": near.lineno,
                "column": near.col_offset,
            }
            yield place | {"was": was, "is": ast.unparse(new)}, tree


class Mutated(importlib.machinery.SourceFileLoader):
    """Finds and loads one module with the code given."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self._module = ".".join(
            ("calspline", *path.relative_to(SOURCE).with_suffix("").parts)
        )
        self._tree = tree
        super().__init__(self._module, str(path))

    def get_code(self, fullname: str) -> Any:
        """The mutant, whatever is in the cache of compiled code."""
        return compile(self._tree, self.path, "exec")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Where the one module is; of others it knows nothing."""
        return (
            importlib.util.spec_from_file_location(name, self.path, loader=self)
            if name == self._module
            else None
        )


def area_of(path: Path) -> str:
    """The area that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def tested(path: Path, tree: ast.Module) -> str:
    """Run the tests on a mutant, in a fork."""
    child = os.fork()
    if not child:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        sys.meta_path.insert(0, Mutated(path, tree))
        import pytest

        area = area_of(path)
        nearest = ROOT / "tests" / area / f"test_{path.stem}.py"
        first = [str(nearest)] if nearest.exists() else []
        plugins = ["no:cacheprovider", "no:xdist", "no:cov"]
        options = [part for name in plugins for part in ("-p", name)]
        os._exit(pytest.main([*first, *AREAS[area], "-xq", "-m", ONLY, *options]))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed: too slow or crashed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def sources(area: str) -> list[Path]:
    """The files of an area."""
    file = SOURCE / f"{area}.py"
    found = [file] if file.exists() else sorted((SOURCE / area).glob("*.py"))
    if not found:
        raise SystemExit(f"there is no {area}, neither a file nor a folder")
    return found


def main() -> None:
    """Test a sample of the mutants; results are kept, and those that are there are not made again."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        help="how many mutants, drawn at random; 0 is all",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--results",
        type=Path,
        default=Path(os.devnull),
        help="a file that keeps what was found",
    )
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    for name in (
        "numpy",
        "scipy.interpolate",
        "scipy.optimize",
        "scipy.stats",
        "sklearn.base",
        "pytest",
    ):
        importlib.import_module(name)
    files = [path for area in AREAS for path in sources(area)]
    every = [(where, path, tree) for path in files for where, tree in mutants(path)]
    chosen = random.Random(options.seed).sample(
        every, min(options.sample, len(every)) or len(every)
    )
    for area in sorted({area_of(path) for _, path, _ in chosen}):
        untouched = sources(area)[0]
        if tested(untouched, ast.parse(untouched.read_text())) != "survived":
            raise SystemExit(f"the tests of {area} fail without any change")
    options.results.touch()
    known = [json.loads(line) for line in options.results.read_text().splitlines()]
    found = {json.dumps(one["mutant"]): one["result"] for one in known}
    with options.results.open("a") as file:
        for number, (where, path, tree) in enumerate(chosen, 1):
            key = json.dumps(where)
            if key not in found:
                found[key] = tested(path, tree)
                file.write(json.dumps({"mutant": where, "result": found[key]}) + "\n")
                file.flush()
            print(
                f"{number:5}/{len(chosen)}  {found[key]:9}  {where['file']}:{where['line']}  {where['was']!r}"
                f" -> {where['is']!r}",
                flush=True,
            )
    results = [found[json.dumps(where)] for where, _, _ in chosen]
    alive = results.count("survived")
    print(
        f"{len(results) - alive} of {len(results)} mutants killed ({len(every)} in all), {alive} survived"
    )


if __name__ == "__main__":
    main()
