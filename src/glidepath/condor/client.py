"""What a child of ours is told about its pool: the environment it is started with, and nothing else.

HTCondor takes its whole configuration from the environment here, so that no file of this machine, and no
pool that this machine belongs to, has a say in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# Where to find programs, libraries and tokens; no variable of the caller's that could hold a secret.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
# Below the deadline of an ask: an answer that names the trouble is worth more than a killed child.
QUERY_S = 15


def environment(
    collector: str, *, token_folder: str = "", methods: str = "", given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The child's environment, with the pool's collector and the folder of our own token to it."""
    given = os.environ if given is None else given
    kept = {name: given[name] for name in PASSED_ON if name in given}
    settings = {
        "COLLECTOR_HOST": collector,
        "QUERY_TIMEOUT": str(QUERY_S),
        # Reading needs no more than what the pool insists on; a name that is offered unasked can be refused.
        "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
        "ENABLE_CLASSAD_CACHING": "true",
    }
    if token_folder:
        settings["SEC_TOKEN_DIRECTORY"] = token_folder
    if methods:
        settings["SEC_CLIENT_AUTHENTICATION_METHODS"] = methods
    return {**kept, "CONDOR_CONFIG": "ONLY_ENV", **{f"_CONDOR_{k}": v for k, v in settings.items()}}
