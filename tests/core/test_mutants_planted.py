"""The tool that plants mistakes plants all that it says, each once, and nothing into words and asserts."""

from __future__ import annotations

import ast

import pytest
from tests.mutations import changes


def planted(text: str) -> list[str]:
    return [f"{change.operator}: {change.shown()[1]}" for change in changes(ast.parse(text))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", ["returned: return not a < b", "compare: return a <= b", "compare: return a >= b"]),
        ("return a is b", ["returned: return not a is b", "compare: return a is not b"]),
        ("return not a", ["returned: return not not a", "sign: return a"]),
        ("x = a + 3", ["arithmetic: x = a - 3", "number: x = a + 4", "number: x = a + 2"]),
        ("x = a // b", ["arithmetic: x = a * b"]),
        ("x = -a", ["sign: x = a"]),
        ("x = min(a, b)", ["extreme: x = max(a, b)"]),
        ("x = a[:b]", ["slice: x = a"]),
        ("x = f(a, key=b)", ["keyword: x = f(a)"]),
        ("x = Because.BREACH", ["member: x = Because.ASKED"]),
        ("x = True", ["flip: x = False"]),
        ("x = a and b", ["boolean: x = a or b", "forced: x = True and b", "forced: x = a and True"]),
        ("if a:\n        pass", ["forced: if True:", "forced: if False:"]),
        ("a += b", ["removed: pass", "arithmetic: a -= b"]),
        ("a = b", ["removed: pass"]),
        ("c = b", []),
        ("f(a)", ["removed: pass"]),
        ("for c in a:\n        break", ["loop: continue"]),
        ("for c in a:\n        continue", ["loop: break"]),
        ("raise a", ["removed: pass"]),
        ("x = f'{a - b:>{4}}'", ["arithmetic: x = f'{a + b:>{4}}'"]),
        ("assert a < 3, 'never'", []),
        ("x = zip(a, b, strict=True)", []),
        ("x = 'words'", []),
    ],
)
def test_every_change_is_planted_once_and_words_and_asserts_are_left_alone(
    body: str, expected: list[str]
) -> None:
    assert planted(f"def g(a, b) -> bool:\n    {body}\n") == expected


def test_what_stands_outside_of_functions_is_planted_cold() -> None:
    text = "SPAN_S = 60\nclass A:\n    b: int = 3\n    def f(self, c: int = 5): return c\n"
    found = [(change.function, change.cold, change.shown()[1]) for change in changes(ast.parse(text))]
    assert found == [
        ("", True, "SPAN_S = 61"),
        ("", True, "SPAN_S = 59"),
        ("A", True, "b: int = 4"),
        ("A", True, "b: int = 2"),
        ("A.f", True, "def f(self, c: int=6):"),
        ("A.f", True, "def f(self, c: int=4):"),
        ("A.f", False, "return None"),
    ]
