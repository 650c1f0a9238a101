"""The pilot travels alone: one file, the standard library, old interpreters."""

from __future__ import annotations

import ast
import sys

from glidepath.pilot import PILOT_FILE

# What came after 3.6 and is easily used without a thought; the grammar alone does not show it.
TOO_NEW = {
    "cached_property",
    "capture_output",
    "dataclass",
    "dirs_exist_ok",
    "fromisoformat",
    "missing_ok",
    "nullcontext",
    "pidfd_open",
    "posix_spawn",
    "removeprefix",
    "removesuffix",
    "time_ns",
    "waitstatus_to_exitcode",
}


def test_the_pilot_is_written_in_the_grammar_of_python_3_6() -> None:
    tree = ast.parse(PILOT_FILE.read_text(), feature_version=(3, 6))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {word.arg or "" for word in ast.walk(tree) if isinstance(word, ast.keyword)}
    assert names & TOO_NEW == set()
    assert not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree))


def test_the_pilot_imports_the_standard_library_only() -> None:
    imported = set()
    for node in ast.walk(ast.parse(PILOT_FILE.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported <= sys.stdlib_module_names
    assert "__future__" not in imported
