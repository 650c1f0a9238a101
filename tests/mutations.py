"""Which mistakes can be planted into a source: every change of one operator, number, condition or statement.

A file comes in, its mutants go out, always in the same order and with the same names. Left alone: strings,
asserts, annotations, decorators, and `strict=` of zip, which is a kind of assert. Runs nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parent.parent
CORE = ROOT / "src/glidepath/core"
# Of a long statement, this much is shown on both sides of the change.
CONTEXT = 40

Expr = ast.expr
NEIGHBOURS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
EMPTY = {"list": "[]", "dict": "{}", "set": "set()", "tuple": "()", "int": "0", "str": "''"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Parts of the syntax tree in which nothing is changed.
SKIPPED = frozenset({"decorator_list", "annotation", "returns", "format_spec", "bases", "ctx", "pattern"})


def enums() -> dict[str, list[str]]:
    """The closed sets of the core by name, aliases included, read from the sources."""
    found: dict[str, list[str]] = {}
    nodes = [node for path in sorted(CORE.rglob("*.py")) for node in ast.parse(path.read_text()).body]
    for node in nodes:
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
            targets = [t for part in node.body if isinstance(part, ast.Assign) for t in part.targets]
            found[node.name] = [t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper()]
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in found:
            found[ast.unparse(node.targets[0])] = found[node.value.id]
    return found


ENUMS = enums()


@dataclass
class Change:
    """One node of a syntax tree and what stands there instead."""

    function: str
    operator: str
    parents: tuple[ast.AST, ...]
    old: ast.AST
    new: ast.AST
    cold: bool

    def put(self, new: ast.AST, old: ast.AST) -> None:
        for name, value in ast.iter_fields(self.parents[-1]):
            if value is old:
                setattr(self.parents[-1], name, new)
            elif isinstance(value, list):
                value[:] = [new if each is old else each for each in value]

    def shown(self) -> tuple[str, str]:
        """The statement before and after, cut to what lies around the change."""
        if isinstance(self.old, ast.stmt):
            return _head(self.old)[: 3 * CONTEXT], _head(self.new)
        holders = (ast.stmt, ast.match_case)
        holder = next(node for node in reversed(self.parents) if isinstance(node, holders))
        was = _head(holder)
        self.put(self.new, self.old)
        becomes = _head(holder)
        self.put(self.old, self.new)
        return _window(was, becomes)


def _head(node: ast.AST) -> str:
    """A statement in one line, without the statements inside of it."""
    inner = {name: [ast.Pass()] for name in ("body",) if hasattr(node, name)}
    inner |= {name: [] for name in ("orelse", "finalbody", "decorator_list") if hasattr(node, name)}
    parts = dict(ast.iter_fields(node))
    return ast.unparse(ast.fix_missing_locations(type(node)(**{**parts, **inner}))).split("\n")[0]


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _window(one: str, other: str) -> tuple[str, str]:
    first = _shared(one, other)
    last = _shared(one[first:][::-1], other[first:][::-1])
    start, ends = max(0, first - CONTEXT), [len(text) - max(0, last - CONTEXT) for text in (one, other)]
    cut = ["…" * (start > 0) + text[start:end] + "…" * (end < len(text))
           for text, end in zip((one, other), ends, strict=True)]  # fmt: skip
    return cut[0], cut[1]


def changes(tree: ast.Module) -> Iterator[Change]:
    """Every change of one file, always in the same order."""
    yield from _walk(tree, (), "", None)


def _walk(
    node: ast.AST, parents: tuple[ast.AST, ...], function: str, inside: ast.AST | None
) -> Iterator[Change]:
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
        return
    # Defaults are made where the function is, not when it is called.
    pairs = pairwise(parents)
    default = any(one is inside and isinstance(other, ast.arguments) for one, other in pairs)
    cold = inside is None or default
    if parents:
        for operator, new in _swaps(node, parents, inside if not cold else None):
            ast.fix_missing_locations(ast.copy_location(new, node))
            yield Change(function, operator, parents, node, new, cold)
    if isinstance(node, ast.ClassDef) or (isinstance(node, FUNCTIONS) and inside is None):
        function = f"{function}.{node.name}" if function else node.name
        inside = node if isinstance(node, FUNCTIONS) else inside
    for name, value in ast.iter_fields(node):
        if name not in SKIPPED:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child, (*parents, node), function, inside)


def _swaps(
    node: ast.AST, parents: tuple[ast.AST, ...], inside: ast.AST | None
) -> Iterator[tuple[str, ast.AST]]:
    parent = parents[-1]
    if isinstance(node, ast.Constant):
        yield from _constants(node, parent)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ENUMS:
        members = ENUMS[node.value.id]
        if node.attr in members:
            other = members[(members.index(node.attr) + 1) % len(members)]
            yield "member", ast.Attribute(node.value, other, ast.Load())
    elif isinstance(node, ast.BinOp):
        # Outside of functions a bar joins types.
        joins = inside is None and isinstance(node.op, ast.BitOr)
        if type(node.op) in ARITHMETIC and not joins:
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    if inside is None:
        return
    if isinstance(node, ast.stmt):
        yield from _statements(node, inside)
    elif isinstance(node, Expr):
        yield from _expressions(node, parent)


def _constants(node: ast.Constant, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if (isinstance(parent, ast.keyword) and parent.arg == "strict") or isinstance(parent, ast.Expr):
        return
    if isinstance(parent, ast.keyword) and parent.arg in ("frozen", "slots", "order"):
        return
    if isinstance(node.value, bool):
        yield "flip", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "number", ast.Constant(node.value + 1)
        yield "number", ast.Constant(node.value - 1)


def _condition(node: Expr, parent: ast.AST) -> bool:
    tests = (ast.If, ast.While, ast.IfExp)
    if isinstance(parent, tests) and parent.test is node:
        return True
    if isinstance(parent, ast.comprehension):
        return node in parent.ifs
    return isinstance(parent, ast.match_case) and parent.guard is node


def _expressions(node: Expr, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    condition = _condition(node, parent)
    if condition:
        yield "forced", ast.Constant(True)
        yield "forced", ast.Constant(False)
    elif isinstance(parent, ast.BoolOp):
        # An operand that decides nothing is as good as left out.
        yield "forced", ast.Constant(isinstance(parent.op, ast.And))
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                for table in (
                    (NEIGHBOURS,) if condition and type(op) in NEIGHBOURS else (NEIGHBOURS, OPPOSITES)
                ):
                    if other := table.get(type(op)):
                        others = [*ops[:place], other(), *ops[place + 1 :]]
                        yield "compare", ast.Compare(left, others, comparators)
        case ast.BoolOp(op, values):
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "sign", operand
        case ast.Call(ast.Name("min" | "max" as name), args, keywords):
            other_name = ast.Name("max" if name == "min" else "min", ast.Load())
            yield "extreme", ast.Call(other_name, args, keywords)
        case ast.Subscript(value, ast.Slice(), _):
            yield "slice", value
    if isinstance(node, ast.Call):
        for place, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, "strict"):
                kept = [*node.keywords[:place], *node.keywords[place + 1 :]]
                yield "keyword", ast.Call(node.func, node.args, kept)


def _statements(node: ast.stmt, inside: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(None) | ast.Raise() | ast.Delete() | ast.Expr(ast.Call()):
            yield "removed", ast.Pass()
        case ast.Return(value):
            returns = ast.unparse(inside.returns) if getattr(inside, "returns", None) else "None"
            empty = EMPTY.get(returns.split("[")[0], "None")
            if returns == "bool":
                yield "returned", ast.Return(ast.UnaryOp(ast.Not(), value))
            elif ast.unparse(value) != empty:
                yield "returned", ast.Return(ast.parse(empty, mode="eval").body)
        case ast.Break():
            yield "loop", ast.Continue()
        case ast.Continue():
            yield "loop", ast.Break()
        case ast.AugAssign(target, op, value):
            yield "removed", ast.Pass()
            if type(op) in ARITHMETIC:
                yield "arithmetic", ast.AugAssign(target, ARITHMETIC[type(op)](), value)
        case ast.Assign([ast.Attribute() | ast.Subscript() | ast.Tuple()]):
            yield "removed", ast.Pass()
        case ast.Assign([ast.Name(name)]):
            # Without its only assignment a name is an error and no test is needed to see it.
            bound = [n for n in ast.walk(inside) if isinstance(n, ast.Name) and n.id == name]
            given = [n for n in ast.walk(inside) if isinstance(n, ast.arg) and n.arg == name]
            if given or sum(isinstance(n.ctx, ast.Store) for n in bound) > 1:
                yield "removed", ast.Pass()


@cache
def text_of(path: Path) -> str:
    """Read once: whoever edits a source while this runs must not move the mutants under it."""
    return path.read_text()


@dataclass(frozen=True)
class Mutant:
    """`place` counts the changes of its file; the number in its name those of its function and operator."""

    path: Path
    place: int
    function: str
    operator: str
    number: int
    line: int
    was: str
    becomes: str
    cold: bool

    @property
    def file(self) -> str:
        return str(self.path.relative_to(CORE))

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT / "src").with_suffix("").parts)

    @property
    def id(self) -> str:
        return f"{self.file.removesuffix('.py')}:{self.function or 'module'}:{self.operator}:{self.number}"

    @property
    def key(self) -> tuple[str, ...]:
        return (self.file, self.function, self.operator, self.was, self.becomes)

    @property
    def reaches(self) -> str:
        return f"{self.module}:{self.function}"

    def code(self) -> CodeType:
        tree = ast.parse(text_of(self.path))
        change = next(each for place, each in enumerate(changes(tree)) if place == self.place)
        change.put(change.new, change.old)
        return compile(tree, str(self.path), "exec")


def mutants_of(path: Path) -> list[Mutant]:
    counts: Counter[tuple[str, str]] = Counter()
    twice: Counter[tuple[str, ...]] = Counter()
    found = []
    for place, change in enumerate(changes(ast.parse(text_of(path)))):
        counts[change.function, change.operator] += 1
        was, becomes = change.shown()
        key = (change.function, change.operator, was, becomes)
        twice[key] += 1
        nth = f" ({twice[key]})" if twice[key] > 1 else ""
        found.append(
            Mutant(
                path, place, change.function, change.operator, counts[change.function, change.operator],
                getattr(change.old, "lineno", 0), was, becomes + nth, change.cold,
            )
        )  # fmt: skip
    return found


def targets(names: Iterable[str]) -> list[Path]:
    paths = [CORE / "check.py", *sorted((CORE / "provision").rglob("*.py"))]
    paths = [path for path in paths if path.name != "__init__.py"]
    return [path for path in paths if not names or any(str(path).endswith(name) for name in names)]
