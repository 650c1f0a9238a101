"""The first program in a container of a job: it starts the command, and holds its time limit.

What it is told comes as annotations of the pod that the kubelet writes into files, so that a limit holds,
and can be changed, whether or not glidepath runs. It is plain shell for the `/bin/sh` of any image; what it
leaves behind is one line of JSON. Names of its variables begin with `GLIDEPATH_`, which no job may set:
others would be changed under the command.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

TOLD = "/etc/glidepath/job"  # the folder with what the pod's annotations say
TOLD_FILES = ("go", "stop", "limit", "notice", "hosts", "peers")
FILES = "/etc/glidepath/files"  # the Secret with what is put into the working directory
TOOLS = "/etc/glidepath/tools"  # where a shell is brought, for images that have none
LAST_WORDS = "/dev/termination-log"
# What the probe asks: whether everything but the word to begin is there.
READY = f"test -s {LAST_WORDS}"
APPLETS = ("sh", "sleep", "cp", "chmod", "mkdir", "sha256sum", "test")


class Left(StrEnum):
    """How the keeper left, or how far it came."""

    READY = "ready"  # it waited for the others when it was killed
    EXITED = "exited"
    LIMIT = "limit"
    MEMORY = "memory"  # the kernel ended one of its programs for memory, and the command ended badly for it
    STOPPED = "stopped"
    NO_FOLDER = "no folder"  # there is no such working directory, or it cannot be entered
    NO_FILE = "no file"  # a file did not come, or came otherwise than it was sent
    NO_VOLUME = "no volume"
    NO_COMMAND = "no command"
    ALONE = "alone"  # the word to begin did not come in time


SETUP = frozenset({Left.NO_FOLDER, Left.NO_FILE, Left.NO_VOLUME, Left.NO_COMMAND})


class Words(msgspec.Struct, frozen=True):
    """What a keeper leaves behind."""

    left: Left
    at: int = 0  # which file or volume; what the command returned
    ran_s: int = 0


_WORDS = msgspec.json.Decoder(Words)


def words_of(text: str) -> Words | None:
    """None where a keeper was killed before it could leave word, or the command wrote over it."""
    try:
        return _WORDS.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


# Each word below is one that all of dash, bash and busybox know. Signals reach the first process of a
# container only where it has a trap for them, so that no command can end its keeper.
SCRIPT = r"""set -u
GLIDEPATH_k_told=$1 GLIDEPATH_k_files=$2 GLIDEPATH_k_words=$3
GLIDEPATH_k_grace=$4 GLIDEPATH_k_gather=$5 GLIDEPATH_k_folder=$6
GLIDEPATH_k_notice=$7 GLIDEPATH_k_signal=$8 GLIDEPATH_k_checks=$9
shift 9
GLIDEPATH_k_path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[ -z "${GLIDEPATH_TOOLS:-}" ] || PATH=$GLIDEPATH_TOOLS:$PATH
# What the shell itself would say does not belong into the log of the job.
exec 3>&2 2>/dev/null
GLIDEPATH_k_leave() {
  printf '{"left":"%s","at":%d,"ran_s":%d}\n' "$1" "$2" "$3" >"$GLIDEPATH_k_words"
  exit "$4"
}
GLIDEPATH_k_read() {
  GLIDEPATH_k_line=
  [ ! -r "$GLIDEPATH_k_told/$1" ] || read -r GLIDEPATH_k_line <"$GLIDEPATH_k_told/$1" || :
}
GLIDEPATH_k_clock() {
  read -r GLIDEPATH_k_now GLIDEPATH_k_rest </proc/uptime
  GLIDEPATH_k_now=${GLIDEPATH_k_now%%.*}
}
GLIDEPATH_k_tick() { (while sleep 1; do kill -s USR1 $$ || exit 0; done) 3>&- & }
GLIDEPATH_k_all() { if [ $$ -eq 1 ]; then kill -s "$1" -- -1; else kill -s "$1" "$GLIDEPATH_k_pid"; fi; }
GLIDEPATH_k_tell() { [ -z "$GLIDEPATH_k_signal" ] || kill -s "$GLIDEPATH_k_signal" "$GLIDEPATH_k_pid"; }
GLIDEPATH_k_kills() {
  # By either version of control groups; who looks from outside may hear of it too late, or of another one.
  GLIDEPATH_k_count=0
  for GLIDEPATH_k_line in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$GLIDEPATH_k_line" ] || continue
    while read -r GLIDEPATH_k_rest GLIDEPATH_k_now; do
      [ "$GLIDEPATH_k_rest" != oom_kill ] || GLIDEPATH_k_count=$GLIDEPATH_k_now
    done <"$GLIDEPATH_k_line"
  done
}
GLIDEPATH_k_number() { case $1 in '' | *[!0-9]* | ?????????????*) return 1 ;; esac; }

GLIDEPATH_k_term=
trap : USR1
trap 'GLIDEPATH_k_term=1' TERM
if [ -n "$GLIDEPATH_k_folder" ]; then
  cd -- "$GLIDEPATH_k_folder" || GLIDEPATH_k_leave 'no folder' 0 0 125
fi
GLIDEPATH_k_at=0
while [ "$GLIDEPATH_k_at" -lt "$GLIDEPATH_k_checks" ]; do
  case $1 in
    volume)
      [ -d "$3" ] && [ -r "$3" ] && { [ "$2" = r ] || [ -w "$3" ]; } ||
        GLIDEPATH_k_leave 'no volume' "$GLIDEPATH_k_at" 0 125
      shift 3 ;;
    file)
      case $5 in ?*/*) mkdir -p -- "${5%/*}" ;; esac
      cp -- "$GLIDEPATH_k_files/$2" "$5" && chmod -- "$3" "$5" &&
        GLIDEPATH_k_sum=$(sha256sum <"$5") && [ "${GLIDEPATH_k_sum%% *}" = "$4" ] ||
        GLIDEPATH_k_leave 'no file' "$GLIDEPATH_k_at" 0 125
      shift 5 ;;
  esac
  GLIDEPATH_k_at=$((GLIDEPATH_k_at + 1))
done
case $1 in
  */*) [ -f "$1" ] && [ -x "$1" ] || GLIDEPATH_k_leave 'no command' 0 0 125 ;;
  *) (PATH=$GLIDEPATH_k_path; command -v "$1" >/dev/null) || GLIDEPATH_k_leave 'no command' 0 0 125 ;;
esac

printf '{"left":"ready"}\n' >"$GLIDEPATH_k_words"
GLIDEPATH_k_clock
GLIDEPATH_k_came=$GLIDEPATH_k_now
while :; do
  GLIDEPATH_k_read stop
  [ -z "$GLIDEPATH_k_line$GLIDEPATH_k_term" ] || GLIDEPATH_k_leave stopped 0 0 143
  GLIDEPATH_k_read go
  [ -z "$GLIDEPATH_k_line" ] || break
  GLIDEPATH_k_clock
  [ $((GLIDEPATH_k_now - GLIDEPATH_k_came)) -lt "$GLIDEPATH_k_gather" ] || GLIDEPATH_k_leave alone 0 0 125
  sleep 0.2 || sleep 1
done

GLIDEPATH_k_kills
GLIDEPATH_k_before=$GLIDEPATH_k_count
GLIDEPATH_k_read notice
GLIDEPATH_k_heard=$GLIDEPATH_k_line
GLIDEPATH_k_clock
GLIDEPATH_k_began=$GLIDEPATH_k_now GLIDEPATH_k_due= GLIDEPATH_k_left=exited GLIDEPATH_k_last=
(PATH=$GLIDEPATH_k_path; exec 2>&3 3>&-; exec "$@") &
GLIDEPATH_k_pid=$!
GLIDEPATH_k_tick
while :; do
  wait "$GLIDEPATH_k_pid"
  GLIDEPATH_k_code=$?
  # It ends with the command; a word in between comes each second, or when it is to stop.
  kill -s 0 "$GLIDEPATH_k_pid" || break
  GLIDEPATH_k_clock
  if [ -n "$GLIDEPATH_k_due" ]; then
    if [ "$GLIDEPATH_k_now" -ge "$GLIDEPATH_k_due" ]; then
      GLIDEPATH_k_all KILL
      GLIDEPATH_k_tick
    fi
    continue
  fi
  GLIDEPATH_k_read notice
  if [ "$GLIDEPATH_k_line" != "$GLIDEPATH_k_heard" ]; then
    GLIDEPATH_k_heard=$GLIDEPATH_k_line
    GLIDEPATH_k_tell
  fi
  GLIDEPATH_k_read limit
  if GLIDEPATH_k_number "$GLIDEPATH_k_line"; then
    GLIDEPATH_k_rest=$((GLIDEPATH_k_began + GLIDEPATH_k_line - GLIDEPATH_k_now))
    if [ "$GLIDEPATH_k_rest" -le 0 ]; then
      GLIDEPATH_k_left=limit
    elif [ "$GLIDEPATH_k_last" != "$GLIDEPATH_k_line" ] && [ "$GLIDEPATH_k_rest" -le "$GLIDEPATH_k_notice" ]
    then
      GLIDEPATH_k_last=$GLIDEPATH_k_line
      GLIDEPATH_k_tell
    fi
  fi
  GLIDEPATH_k_read stop
  [ -z "$GLIDEPATH_k_line$GLIDEPATH_k_term" ] || GLIDEPATH_k_left=stopped
  if [ "$GLIDEPATH_k_left" != exited ]; then
    GLIDEPATH_k_due=$((GLIDEPATH_k_now + GLIDEPATH_k_grace))
    GLIDEPATH_k_all TERM
    GLIDEPATH_k_tick
  fi
done
# Where a tick came just as it ended, its own code is told only now.
wait "$GLIDEPATH_k_pid"
GLIDEPATH_k_again=$?
[ "$GLIDEPATH_k_again" -eq 127 ] || GLIDEPATH_k_code=$GLIDEPATH_k_again
GLIDEPATH_k_kills
if [ "$GLIDEPATH_k_left" = exited ] && [ "$GLIDEPATH_k_code" -ne 0 ]; then
  [ "$GLIDEPATH_k_count" = "$GLIDEPATH_k_before" ] || GLIDEPATH_k_left=memory
fi
GLIDEPATH_k_clock
GLIDEPATH_k_ran=$((GLIDEPATH_k_now - GLIDEPATH_k_began))
case $GLIDEPATH_k_left in
  limit) GLIDEPATH_k_exit=124 ;;
  stopped) GLIDEPATH_k_exit=143 ;;
  *) GLIDEPATH_k_exit=$GLIDEPATH_k_code ;;
esac
GLIDEPATH_k_leave "$GLIDEPATH_k_left" "$GLIDEPATH_k_code" "$GLIDEPATH_k_ran" "$GLIDEPATH_k_exit"
"""
