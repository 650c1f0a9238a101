"""HTCondor's Python binding, imported in one place and in the one order that works.

`classad2` by itself answers error for every function that HTCondor adds to the language, `countMatches` and
`stringListMember` among them; they exist once `htcondor2` has been imported. Only children import this.
"""

from __future__ import annotations

import os

# Without this the import looks for the configuration of whatever pool this machine belongs to.
os.environ.setdefault("CONDOR_CONFIG", "ONLY_ENV")

import htcondor2  # type: ignore[import-untyped]
from classad2 import ClassAd, ClassAdException, ExprTree, Value  # type: ignore[import-untyped]

HTCondorException = htcondor2.HTCondorException

__all__ = ["ClassAd", "ClassAdException", "ExprTree", "HTCondorException", "Value", "htcondor2"]
