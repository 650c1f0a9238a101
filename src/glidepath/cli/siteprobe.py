"""`glidepath site probe`: a site that is not configured yet is asked for its limits; its tables are printed.

A kind of site and where it is come in, TOML or the queues one by one go out. Nothing is written and nothing
is started there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import OUTPUT, drawn
from glidepath.cli.verb import Answer, Exit, Options, Stop, Verb
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.ports import ProbesSite

# Options, and what they are called in the settings of a site.
WHERE = {
    **{name: name for name in ("host", "user", "port", "identity", "path")},
    "ssh_config": "config",
}


class Probe(Verb):
    """Ask a batch system for its limits, and print the tables of a site with an offer for each queue"""

    options: ClassVar[Options] = {
        "kind": {
            "args": ("kind",),
            "metavar": "KIND",
            "help": "the batch system: slurm, sge or htcondor",
        },
        "name": {
            "args": ("--name",),
            "default": "",
            "metavar": "NAME",
            "help": "the name of the site to be (default: that of the kind)",
        },
        "host": {"args": ("--host",), "metavar": "HOST", "help": "its login node (default: this machine)"},
        "user": {"args": ("--user",), "metavar": "USER", "help": "user there (default: as ssh has it)"},
        "port": {"args": ("--port",), "type": argument.count, "metavar": "PORT", "help": "port of its ssh"},
        "identity": {"args": ("--identity",), "metavar": "FILE", "help": "file with the private key"},
        "ssh_config": {
            "args": ("--ssh-config",),
            "metavar": "FILE",
            "help": "file that ssh reads instead of `~/.ssh/config`",
        },
        "path": {
            "args": ("--path",),
            "metavar": "FOLDERS",
            "help": "folders with the commands of the batch system there, with `:` between them",
        },
        **OUTPUT,
    }

    def run(self) -> int:
        from glidepath.cli.where import where
        from glidepath.config.fields import NAME
        from glidepath.core.quantity import SiteName
        from glidepath.ports import WORLD_ERRORS, Place

        kind, name = self.given["kind"], self.given["name"] or self.given["kind"]
        probes = probes_of(kind)
        if not NAME.fullmatch(name):
            message = f"`{one_line(name)}` is no name of a site; allowed are small letters, digits and `-`"
            raise Stop(message, code=Exit.USAGE)
        # The configuration is not read: it may be what this is asked for.
        home = where(self.caller.environ, home=self.given["home"], config=self.given["config"]).home
        told = {key: self.given[name] for name, key in WHERE.items() if self.given[name] is not None}
        try:
            found = probes.probe(SiteName(name), told, Place(home, ""))
        except WORLD_ERRORS as error:
            raise Stop(f"the site told nothing: {error}") from None
        answer = Answer("QueueList", found.queues, lines=found.lines, nothing="the site has no queues")
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        self.caller.out.flush()
        return Exit.DONE


def probes_of(kind: str) -> ProbesSite:
    from glidepath.plugins import BACKENDS, PluginError, load
    from glidepath.ports import ProbesSite

    try:
        found = load(BACKENDS, kind)
    except PluginError as error:
        raise Stop(str(error), code=Exit.USAGE) from None
    if not isinstance(found, ProbesSite):
        message = f"sites of the kind `{one_line(kind)}` have no limits that could be asked for"
        raise Stop(message, code=Exit.USAGE, hint="there are `slurm`, `sge` and `htcondor`")
    return found
