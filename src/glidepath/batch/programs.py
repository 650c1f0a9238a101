"""What is done in the folder of a site, as programs for its shell: the same text for every pilot.

Names and paths are arguments, secrets come by standard input, and what happened goes out in lines that begin
with `:glidepath`. One program is one command, however many files it touches.
"""

from __future__ import annotations

from glidepath.remote.runner import Ran

WORD = ":glidepath "
SHELL = "/bin/sh"

_BEGIN = """\
umask 077
LC_ALL=C; export LC_ALL
say() { printf ':glidepath %s\\n' "$*"; }
top=$1; shift
"""

# With times of now: who tidies a scratch file system goes by them.
# Everything of a job is there before its batch system hears of it, and its answer is kept beside it: whoever
# is killed in between finds out by looking.
SUBMIT = (
    _BEGIN
    + """\
first=$1 pilot=$2 again=$3; shift 3
cd "${top%/*}" || exit 1
mkdir -p "$top" && cd "$top" && mkdir -p asked answers ended nodes jobs || exit 1
if [ ! -e "$pilot" ]; then say lacks; exit 0; fi
if [ -e "asked/$first" ] && [ "$again" != again ]; then
  say there
  cat "asked/$first" && printf '\\n:glidepath answer\\n' || exit 1
  if [ -e "answers/$first" ]; then cat "answers/$first"; fi
  say end
  exit 0
fi
rm -rf "jobs/$first" && mkdir "jobs/$first" || exit 1
tar -xmof - -C "jobs/$first" || exit 1
# The last of the files: without it, others are missing.
[ -s "jobs/$first/asked" ] && : >>"jobs/$first/given" || exit 1
rm -f "answers/$first"
cp "jobs/$first/asked" "asked/.$first" && mv "asked/.$first" "asked/$first" || exit 1
say go
# In its folder: there a system that brings files back leaves them.
(cd "jobs/$first" && "$@" <given >out 2>err)
code=$?
{ printf '%s\\n' "$code"; cat "jobs/$first/out"; say err; cat "jobs/$first/err"; } >"answers/.$first" &&
  mv "answers/.$first" "answers/$first"
say ran "$code"
cat "jobs/$first/out"
cat "jobs/$first/err" >&2
exit 0
"""
)

# A line that breaks in the middle must not leave half a pilot under its name.
BRING = (
    _BEGIN
    + """\
pilot=$1 size=$2
cd "${top%/*}" && mkdir -p "$top" && cd "$top" || exit 1
cat >".$pilot.$$"
if [ "$(wc -c <".$pilot.$$")" -ne "$size" ]; then rm -f ".$pilot.$$"; echo 'it came cut' >&2; exit 1; fi
chmod 700 ".$pilot.$$" && mv ".$pilot.$$" "$pilot" && say done
"""
)

# Names of all files, and the contents of those that are not on the list that comes in. Arguments are whether
# last words are brought back into the folders of jobs, and pilots whose last line is wanted, as `JOB/PILOT`.
LOOK = (
    _BEGIN
    + """\
words=$1; shift
cd "${top%/*}" || exit 1
if [ ! -d "$top" ]; then say files; say whole; exit 0; fi
cd "$top" && mkdir -p asked answers ended nodes jobs || exit 1
if [ "$words" = brought ]; then
  for file in jobs/*/last-words; do
    if [ -e "$file" ]; then job=${file%/*}; mv "$file" "ended/${job#*/}" || exit 1; fi
  done
fi
asked=$(ls asked) && ended=$(ls ended) && nodes=$(ls nodes) || exit 1
under() { printf '%s\\n' "$2" | sed -n "s#^[a-z0-9][a-z0-9-]*\\$#$1/&#p"; }
all=$(under asked "$asked"; under ended "$ended"; under nodes "$nodes")
fresh=$({ cat; echo :all; printf '%s\\n' "$all"; } |
  awk '/^:all$/ { all = 1; next } !all { known[$0] = 1; next } NF && !($0 in known)')
printf '%s\\n' "$all"
say files
printf '%s\\n' "$fresh" | xargs grep -saH '' /dev/null
printf '%s\\n' "$fresh" | sed -n 's#^asked/#answers/#p' | xargs grep -saH '' /dev/null
last() {
  for file in "jobs/$1/pilot.log" "jobs/${1%/*}/output"; do
    line=$(tail -c 2000 "$file" 2>/dev/null | tr -d '\\000' | grep -v '^ *$' | tail -n 1)
    if [ -n "$line" ]; then printf 'last/%s:%s\\n' "${1#*/}" "$line"; return; fi
  done
}
for wanted; do last "$wanted"; done
say whole
"""
)

# A job that waits begins by making this folder. Who makes it first has the pilot; the job of one that was
# taken out of the queue finds it there and ends.
WITHDRAW = (
    _BEGIN
    + """\
first=$1; shift
cd "$top" || exit 1
if [ -d "jobs/$first" ]; then
  if mkdir "jobs/$first/started" 2>/dev/null; then : >"jobs/$first/started/withdrawn" || exit 1
  elif [ -e "jobs/$first/started/withdrawn" ]; then :
  elif [ -d "jobs/$first/started" ]; then say started; exit 0
  else echo 'the folder of the job cannot be written' >&2; exit 1; fi
fi
say taken
[ $# -gt 0 ] || exit 0
say go
"$@"
say ran $?
"""
)

# With a word for the job's script, so that it stops its pilot at once and does not let it drain.
CANCEL = (
    _BEGIN
    + """\
first=$1; shift
cd "$top" || exit 1
if [ -d "jobs/$first" ]; then : >"jobs/$first/stop"; fi
say go
"$@"
say ran $?
"""
)

DRAIN = (
    _BEGIN
    + """\
first=$1 name=$2; shift 2
cd "$top" || exit 1
if [ ! -d "jobs/$first/$name" ]; then say gone; exit 0; fi
printf 'yes\\n' >"jobs/$first/$name/drain" || exit 1
if [ $# -gt 0 ] && [ "$1" = stop ]; then : >"jobs/$first/$name/stop" || exit 1; fi
say done
"""
)

# All of a job, given its pilots; secrets first.
CLEAR = (
    _BEGIN
    + """\
first=$1; shift
cd "${top%/*}" || exit 1
[ -d "$top" ] || { say done; exit 0; }
cd "$top" && rm -rf "jobs/$first" || exit 1
rm -f "asked/$first" "answers/$first" || exit 1
for name; do rm -f "ended/$name" "nodes/$name"; done
say done
"""
)

# One of several pilots of a job whose others go on.
FORGET = (
    _BEGIN
    + """\
first=$1 name=$2
cd "$top" || exit 1
rm -rf "jobs/$first/$name" || exit 1
echo cleared >"ended/.$name" && mv "ended/.$name" "ended/$name" && say done
"""
)

LOGS = (
    _BEGIN
    + """\
name=$1 bytes=$2
cd "$top" || exit 1
for folder in jobs/*/"$name"; do
  [ -d "$folder" ] || continue
  say found
  for file in "${folder%/*}/output" "$folder/pilot.log"; do
    if [ -e "$file" ]; then tail -c "$bytes" "$file"; fi
  done
done
say end
"""
)

CHECK = (
    _BEGIN
    + """\
for program; do
  if command -v "$program" >/dev/null 2>&1; then say has "$program"; else say lacks "$program"; fi
done
cd "${top%/*}" || { say nofolder; exit 0; }
mark=.glidepath-check.$$
if (: >"$mark") 2>/dev/null; then rm -f "$mark"; say writable; else say readonly; fi
say whole
"""
)


def argv(program: str, top: str, *words: str) -> tuple[str, ...]:
    return (SHELL, "-c", program, "glidepath", top, *words)


def words_in(ran: Ran) -> list[str]:
    """What the program said, in its order."""
    return [line[len(WORD) :] for line in ran.out.split("\n") if line.startswith(WORD)]


def ended(ran: Ran) -> tuple[int | None, str] | None:
    """How the command that a program ran has ended, and what it printed; None where it was not run to its
    end."""
    _, went, rest = ran.out.partition(f"{WORD}go\n")
    if not went:
        return None
    before, told, after = rest.partition(f"{WORD}ran ")
    code, _, printed = after.partition("\n")
    if not told or not code.lstrip("-").isdigit():
        return None
    return int(code), before + printed
