"""What makes a job of a pilot: a specification and settings come in, the job and its files go out.

Every value that reaches a script or a command is a checked one. What only the pilot may read stands in files
of its own, which nobody else can open; scripts and commands hold none of it.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass

from glidepath.batch.dialect import BatchJob, Dialect, Words
from glidepath.batch.intent import key_of, usable, written
from glidepath.batch.lines import option_line, setup_line
from glidepath.batch.settings import (
    GRACE_S,
    MARGIN_S,
    BatchSettings,
    JobSettings,
    cores_of,
    memory_of,
    needed_s,
)
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import PilotName, SiteName
from glidepath.core.text import one_line
from glidepath.pilot import pilot_name
from glidepath.remote.words import SafePath, SafeWord, safe_path, safe_word, safe_words

LIFE_S_MIN = 60
PLAIN, SECRET, PROGRAM = 0o600, 0o600, 0o700
# The first moment that archives know: the same job makes the same bytes.
STAMP_S = 315532800

# How the same program is run once on each node of a job, with its arguments, and waited for. Slurm is told
# all of it because some version, or a variable of the job, says otherwise.
SPREAD: dict[str, str] = {
    "slurm": 'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 '
    "--export=ALL --input=none --mpi=none --kill-on-bad-exit=0 --wait=0 "
    '${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"} "$@"',
    "pbs": 'pbsdsh "$@"',
    "lsf": 'blaunch -z "$(sort -u "$LSB_DJOB_HOSTFILE" | tr "\\n" " ")" "$@"',
    # The first line is the node on which the script runs: a task there would count against its slots.
    "sge": """{
  read -r _ || return 1
  while read -r host _; do qrsh -inherit -nostdin "$host" "$@" </dev/null & done
  "$@" &
  wait
} <"$PE_HOSTFILE\"""",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file in the folder of a job; `secret` ones are named to people and not shown."""

    name: str
    content: str
    mode: int = PLAIN
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A job that is ready to be sent."""

    job: BatchJob
    words: Words
    files: tuple[File, ...]

    def packed(self) -> bytes:
        """All files as one archive, in their order; the intent comes last, and tells that it is whole."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for file in self.files:
                content = file.content.encode()
                entry = tarfile.TarInfo(file.name)
                entry.size, entry.mode, entry.mtime = len(content), file.mode, STAMP_S
                archive.addfile(entry, io.BytesIO(content))
        return made.getvalue()


@dataclass(frozen=True, slots=True)
class Site:
    """Where jobs of one site are kept, and by what its jobs are known."""

    top: SafePath
    mark: str

    def folder(self, first: PilotName) -> SafePath:
        return SafePath(f"{self.top}/jobs/{first}")


def top_of(settings: BatchSettings, site: SiteName) -> SafePath:
    """Sites that are reached by the same user may share a folder; each has its own in it."""
    return safe_path(f"{settings.folder}/{site}", "the folder of the site")


def made(spec: PilotSpec, settings: JobSettings, dialect: Dialect, site: Site) -> Made:
    """Raises ValueError with a sentence where this cannot be a job there."""
    names = (spec.name, *spec.mates)
    if not all(usable(name) for name in names):
        raise ValueError("the name of a pilot must be at most 63 small letters, digits and `-`")
    if len(names) != settings.nodes * settings.per_node:
        raise ValueError(
            f"{len(names)} pilots were asked for with one job, and `nodes` and `per_node` make "
            f"{settings.nodes * settings.per_node}"
        )
    job = _job(spec, settings, dialect, site)
    words = dialect.submit(job)
    if dialect.shares_folder:
        spread = SPREAD[dialect.name] if job.nodes > 1 else ""
        scripts: tuple[File, ...] = (
            File("job", _job_script(spec, site), PROGRAM),
            File("start", _start_script(spec, settings, site, spread=spread), PROGRAM),
            File("node", _node_script(spec, settings, site), PROGRAM),
        )
    else:
        scripts = (File("job", _lone_script(spec, settings), PROGRAM),)
    return Made(job, words, (*scripts, *_files(spec, settings, given=words.given)))


def _job(spec: PilotSpec, settings: JobSettings, dialect: Dialect, site: Site) -> BatchJob:
    folder, size = site.folder(spec.name), spec.size
    gpu_type = settings.gpu_type or dict(spec.traits).get("gpu_type", "")
    memory_mib = 0 if settings.memory_by == "none" else memory_of(settings, size)
    if settings.per_node > 1 and not dialect.shares_folder:
        raise ValueError(f"jobs of several pilots are not started with {dialect.name}; leave `per_node` at 1")
    if settings.nodes > 1 and not (dialect.multi_node and dialect.name in SPREAD):
        raise ValueError(f"jobs of several nodes are not started with {dialect.name}")
    return BatchJob(
        key=key_of(spec.name, site.mark),
        script=SafePath(f"{folder}/job"),
        output=SafePath(f"{folder}/output"),
        walltime_s=walltime_s(spec, settings),
        nodes=settings.nodes,
        cpus=cores_of(settings, size) * settings.per_node,
        memory_mib=memory_mib * settings.per_node,
        memory_by="core" if settings.memory_by == "core" else "node",
        disk_mib=size.disk_mib * settings.per_node if settings.disk else 0,
        gpus=size.gpus * settings.per_node,
        gpu_type=safe_word(gpu_type, "the type of GPUs") if gpu_type and size.gpus else None,
        gpu_form=_word(settings.gpu_form, "gpu_form"),
        memory_form=_word(settings.memory_form, "memory_form"),
        parallel=_word(settings.parallel, "parallel"),
        nodes_form=_word(settings.nodes_form, "nodes_form"),
        whole_node=settings.whole_node,
        queue=safe_words(settings.queue, "queue") if settings.queue else None,
        account=_word(settings.account, "account"),
        qos=_word(settings.qos, "qos"),
        avoid=tuple(_avoided(spec.avoid)) if dialect.avoids_nodes else (),
        options=tuple(option_line(dialect.name, each) for each in settings.options),
        files=_brought(spec, site) if not dialect.shares_folder else (),
    )


def _word(text: str, what: str) -> SafeWord | None:
    return safe_word(text, f"`{what}`") if text else None


def _avoided(nodes: Iterable[str]) -> Iterable[SafeWord]:
    """Names came from the site once; one that is none of a node is not sent back to it."""
    for node in nodes:
        try:
            yield safe_word(node, "a node")
        except ValueError:
            continue


def grace_s(spec: PilotSpec) -> int:
    """What running jobs have to end in, by the pool's own word."""
    told = dict(spec.join).get("GLIDEPATH_GRACE_S", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 8 else GRACE_S


def walltime_s(spec: PilotSpec, settings: JobSettings) -> int:
    return settings.walltime or needed_s(settings, spec.lifetime_s, grace_s=grace_s(spec))


def lifetime_s(spec: PilotSpec, settings: JobSettings) -> int:
    """So long that the pilot and its jobs are gone before the site ends them."""
    most = walltime_s(spec, settings) - grace_s(spec) - MARGIN_S
    if most < LIFE_S_MIN:
        raise ValueError("`walltime` leaves no time for jobs, only for the grace at their end")
    return min(spec.lifetime_s, most)


def arguments_of(spec: PilotSpec, settings: JobSettings) -> list[str]:
    """What all pilots of a job are told; each is one word, so that no value can be taken for an option."""
    sizes = zip(("cpus-milli", "memory-mib", "disk-mib", "gpus"), spec.size.as_tuple(), strict=True)
    words = [
        "--kind=condor",
        f"--pool={dict(spec.join).get('GLIDEPATH_POOL', spec.pool)}",
        *(f"--{name}={amount}" for name, amount in sizes),
        *(f"--trait={key}={value}" for key, value in spec.traits),
        f"--lifetime-s={lifetime_s(spec, settings)}",
        f"--idle-s={spec.idle_s}",
    ]
    # They are lines of a file.
    for word in words:
        if not word.isprintable():
            raise ValueError(f"`{one_line(word)}` holds what is no letter; a pilot cannot be told that")
    return words


def _files(spec: PilotSpec, settings: JobSettings, *, given: str) -> Iterable[File]:
    yield File("words", "\n".join(arguments_of(spec, settings)) + "\n")
    yield File("given", given)
    told = {**dict(spec.join), "GLIDEPATH_SITE": spec.site, "GLIDEPATH_OFFER": spec.offer}
    if settings.htcondor:
        told["GLIDEPATH_CONDOR"] = settings.htcondor
    secrets = (spec.secrets, *spec.mates_secrets)
    for number, name in enumerate((spec.name, *spec.mates)):
        yield File(f"{name}/settings.json", json.dumps(told, sort_keys=True))
        for token, content in secrets[number] if number < len(secrets) else ():
            yield File(f"{name}/tokens.d/{_file_name(token)}", content, SECRET, secret=True)
    yield File("asked", written(spec, walltime_s=walltime_s(spec, settings)))


def _file_name(text: str) -> SafeWord:
    """That of a file in its folder, and in no other."""
    if "/" in text:
        raise ValueError(f"a secret: `{one_line(text)}` is no name of a file")
    return safe_word(text, "a secret")


def _job_script(spec: PilotSpec, site: Site) -> str:
    """What the batch system is given. Some have it read by the user's login shell, whatever that is."""
    lines = [
        f"# A pilot of glidepath: {spec.name}",
        f"exec /bin/sh {safe_path(f'{site.folder(spec.name)}/start', 'the script')}",
    ]
    return "#!/bin/sh\n" + "\n".join(lines) + "\n"


def _start_script(spec: PilotSpec, settings: JobSettings, site: Site, *, spread: str) -> str:
    """Runs once for a job, on its first node."""
    folder = site.folder(spec.name)
    program = f"{_shell(settings)} {folder}/node"
    begin = _START.format(folder=folder)
    if not spread:
        return f"{begin}exec {program}\n"
    names = " ".join((spec.name, *spec.mates))
    return begin + _SPREAD.format(body=spread, program=program, names=names)


def _shell(settings: JobSettings) -> str:
    """Modules are known to login shells of bash; without them the plainest shell will do."""
    return "/bin/bash -l" if settings.setup else "/bin/sh"


def _node_script(spec: PilotSpec, settings: JobSettings, site: Site) -> str:
    """Runs on every node of a job, and starts its pilots there."""
    names = (spec.name, *spec.mates)
    filled = {
        "folder": site.folder(spec.name),
        "top": site.top,
        "setup": "".join(f"{setup_line(each)}\n" for each in settings.setup),
        "names": " ".join(names),
        "per_node": settings.per_node,
        "python": _python(settings),
        "pilot": pilot_name(),
        "named": f"  {_NAMED}" if len(names) > 1 else "",
    }
    once = _ONCE_A_NODE if settings.nodes > 1 else ""
    return _NODE.format(once=once, wait=_WAIT_FOR_ONE if len(names) == 1 else _WAIT_FOR_SEVERAL, **filled)


def _python(settings: JobSettings) -> str:
    python = settings.python
    return safe_path(python, "`python`") if python.startswith("/") else safe_word(python, "`python`")


def _lone_script(spec: PilotSpec, settings: JobSettings) -> str:
    """Runs where nothing of ours is but the files that came along, beside it."""
    tokens = (str(safe_word(token, "a secret")) for token, _ in spec.secrets)
    return _LONE.format(
        interpreter=_shell(settings),
        name=spec.name,
        setup="".join(f"{setup_line(each)}\n" for each in settings.setup),
        tokens=" ".join(tokens),
        python=_python(settings),
        pilot=pilot_name(),
    )


_LONE = """\
#!{interpreter}
# A pilot of glidepath: {name}
umask 077
PATH=${{PATH:-/usr/local/bin:/usr/bin:/bin}}; export PATH
here=$PWD
{setup}cd "$here" || exit 1
work=$here/{name}
mkdir -p "$work/tokens.d" && mv settings.json "$work/settings.json" || exit 1
for token in {tokens}; do mv "$token" "$work/tokens.d/$token" || exit 1; done
set --
while IFS= read -r word; do set -- "$@" "$word"; done <words
{python} -I "./{pilot}" "--name={name}" "--folder=$work" "--settings=$work/settings.json" \\
  "--last-words=$here/last-words" "$@" &
pid=$!
trap 'kill -USR1 "$pid"' USR1
# It is told once that its time here is over, and gets minutes at most: jobs are given back at once.
trap 'kill -INT "$pid"' TERM
until wait "$pid"; code=$?; ! kill -0 "$pid" 2>/dev/null; do :; done
rm -rf "$work" words
if [ ! -s last-words ]; then
  why="it ended with exit code $code and without a word"
  printf '{{"ok": false, "wordless": true, "why": "%s"}}\\n' "$why" >last-words
fi
exit "$code"
"""
_START = """\
#!/bin/sh
umask 077
cd {folder} || exit 1
# Whoever makes this folder first has the pilot: a job that came twice, or was taken back, ends here.
if ! mkdir started; then
  echo 'this job is not needed any more'
  exit 0
fi
"""
# A site tells only the first node that it ends a job; the folder tells all pilots.
_SPREAD = """\
spread() {{
{body}
}}
trap 'for name in {names}; do echo yes >"$name/drain"; done' USR1 TERM
spread {program} &
spread=$!
until wait "$spread"; code=$?; ! kill -0 "$spread" 2>/dev/null; do :; done
exit "$code"
"""
# By this it is told apart where each pilot of a job is.
_NAMED = """\
printf '%s\\n' "$host" >"$top/nodes/.$name" && mv "$top/nodes/.$name" "$top/nodes/$name"
"""
_ONCE_A_NODE = """\
mkdir "host.$host" 2>/dev/null || exit 0
"""
# Where jobs work is a folder of the node: HTCondor's own files have no place on a shared file system. Some
# batch systems give jobs no PATH, and without one Python does not know where it is itself.
_NODE = """\
umask 077
PATH=${{PATH:-/usr/local/bin:/usr/bin:/bin}}; export PATH
{setup}cd {folder} || exit 1
top={top}
host=${{SLURMD_NODENAME:-$(hostname)}}
{once}begin() {{
  work=$(mktemp -d "${{TMPDIR:-/tmp}}/$name.XXXXXX") || exit 1
  printf '%s\\n' "$work" >"$name/work"
  cp "$name/settings.json" "$work/settings.json" || exit 1
  if [ -d "$name/tokens.d" ]; then
    cp -R "$name/tokens.d" "$work/tokens.d" && rm -rf "$name/tokens.d" || exit 1
  fi
  set --
  while IFS= read -r word; do set -- "$@" "$word"; done <words
  {python} -I "$top/{pilot}" "--name=$name" "--folder=$work" "--settings=$work/settings.json" \\
    "--drain-file=$PWD/$name/drain" "--last-words=$top/ended/$name" "$@" >>"$name/pilot.log" 2>&1 &
}}
# After the pilot: what it left on the node goes, and where it could say nothing we say that it is over.
finish() {{
  rm -rf "$(cat "$name/work")"
  if [ ! -s "$top/ended/$name" ]; then
    why="it ended with exit code $code and without a word"
    printf '{{"ok": false, "wordless": true, "why": "%s"}}\\n' "$why" >"$top/ended/.$name" &&
      mv "$top/ended/.$name" "$top/ended/$name"
  fi
}}
tell() {{
  for pid in $pids; do kill "-$1" "$pid" 2>/dev/null; done
}}
# A site that ends a job says so once; the pilot then drains. With `stop` it is ended for us, at once.
trap 'tell USR1' USR1
trap 'if [ -e stop ]; then tell INT; else tell USR1; fi' TERM
pids= mine= left={per_node}
for name in {names}; do
  [ "$left" -gt 0 ] || break
  mkdir "$name/taken" 2>/dev/null || continue
  left=$((left - 1))
{named}  begin
  pids="$pids $!" mine="$mine $name:$!"
done
{wait}"""
_WAIT_FOR_ONE = """\
pid=${mine#*:}
# A signal ends the waiting, and not what is waited for.
until wait "$pid"; code=$?; ! kill -0 "$pid" 2>/dev/null; do :; done
finish
exit "$code"
"""
# Several are looked at now and then: one of them may have to stop while the others go on.
_WAIT_FOR_SEVERAL = """\
worst=0
while [ -n "$mine" ]; do
  still=
  for one in $mine; do
    name=${one%:*} pid=${one#*:}
    if kill -0 "$pid" 2>/dev/null; then
      still="$still $one"
      if [ -e "$name/stop" ] || [ -e stop ]; then kill -INT "$pid"; fi
    else
      wait "$pid"
      code=$?
      if [ "$code" -ne 0 ]; then worst=$code; fi
      finish
    fi
  done
  mine=$still
  if [ -n "$mine" ]; then
    sleep 2 &
    wait "$!"
  fi
done
exit "$worst"
"""


def rendered(made: Made) -> str:
    """All of it for people: secrets are named, not shown."""
    import shlex

    parts = [f"# The command, as the user at the site runs it:\n{shlex.join(made.words.argv)}\n"]
    for file in made.files:
        shown = "(not shown)\n" if file.secret else file.content
        if (
            file.name.endswith("settings.json")
            and file.name != f"{made.job.key.rpartition('.')[0]}/settings.json"
        ):
            shown = "(as the first)\n"
        if shown:
            parts.append(f"# {file.name}, mode {file.mode:o}:\n{shown.rstrip(chr(10))}\n")
    return "\n".join(parts)


def _brought(spec: PilotSpec, site: Site) -> tuple[SafePath, ...]:
    """What travels with a job where nodes do not see the folder."""
    folder = site.folder(spec.name)
    secrets = (f"{folder}/{spec.name}/tokens.d/{name}" for name, _ in spec.secrets)
    paths = (f"{folder}/words", f"{folder}/{spec.name}/settings.json", *secrets, f"{site.top}/{pilot_name()}")
    return tuple(safe_path(path, "a file of the pilot") for path in paths)
