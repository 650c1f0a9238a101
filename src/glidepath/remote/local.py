"""Commands run on this machine, as on a login node: words come in, how the command ended goes out.

No shell reads the words. Of our environment a command sees only what it needs: an option of a batch system
in a variable, such as `SBATCH_PARTITION`, would go before what the configuration says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from glidepath.core.text import one_line
from glidepath.ports import Connection
from glidepath.remote.child import ended
from glidepath.remote.runner import NotSent, Ran

PATH_USUAL = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
# Who and where we are, and where the batch systems have their own configuration.
PASSED_ON = (
    *("HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "KRB5CCNAME", "KRB5_CONFIG"),
    *("SLURM_CONF", "SLURM_CONF_SERVER", "SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT"),
    *("SGE_EXECD_PORT", "PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_DEFAULT", "LSF_ENVDIR", "LSF_BINDIR"),
    *("LSF_LIBDIR", "LSF_SERVERDIR", "CONDOR_CONFIG", "LD_LIBRARY_PATH"),
)


def reduced(environ: Mapping[str, str], *, path: str = "") -> dict[str, str]:
    """What of our environment a command sees. Numbers and messages are those of no language."""
    kept = {name: environ[name] for name in PASSED_ON if name in environ}
    usual = environ.get("PATH") or PATH_USUAL
    return {**kept, "PATH": f"{path}:{usual}" if path else usual, "LC_ALL": "C"}


class LocalRunner:
    """The machine that glidepath itself runs on; may be used from several threads."""

    def __init__(self, *, environ: Mapping[str, str], path: str = "") -> None:
        self._environ = reduced(environ, path=path)

    def run(self, argv: Sequence[str], *, given: bytes = b"", limit_s: float) -> Ran:
        words = list(argv)
        if not words or any("\0" in word for word in words):
            raise ValueError("a command needs a word, and no word can hold a zero byte")
        found = self._found(words[0])
        try:
            end = ended([found, *words[1:]], given=given, limit_s=limit_s, environ=self._environ)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise NotSent(f"`{one_line(words[0])}` cannot be started on this machine: {why}") from None
        out, err = (text.decode("utf-8", "replace") for text in (end.out, end.err))
        return Ran(end.code, out, err, end.cut)

    def close(self) -> None:
        """Nothing stays open between two commands."""

    def connection(self) -> Connection:
        return Connection()

    def login(self, say: Callable[[str], None]) -> Connection:
        say("the commands run on this machine; there is nothing to log in to")
        return Connection()

    def logout(self) -> Connection:
        return Connection()

    def _found(self, word: str) -> str:
        """By the command's own search path, not by ours."""
        import shutil

        found = shutil.which(word, path=self._environ["PATH"])
        if found is None:
            name = one_line(word)
            raise NotSent(
                f"`{name}` is not on this machine; set `path` in the site's `ssh` table to its folder, or "
                "`host` to a host that has it"
            )
        return found
