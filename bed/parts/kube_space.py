"""The world of one cluster: private mount, process and network namespaces, a cable, and control groups.

An instance comes in; the command of its first program, addresses, and words that run a program inside go out.
When the first program ends, the kernel takes away all but the control groups; those `remove_groups` takes.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bed.command import run
from bed.leaks import CONTROL_GROUPS, tag
from bed.place import Instance, Place
from bed.trouble import Trouble

# What the kubelet asks of the kernel, and would otherwise set for the whole machine.
WANTED_OF_THE_KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
# Folders of the machine that containerd, the kubelet and network plug-ins write to whatever they are told.
OWN_FOLDERS = ("/run", "/var/lib", "/var/log")
READY = "inside"
CABLE_INSIDE = "up0"
BLOCKS = range(200)
TOOL_S_MAX = 30
POLL_S = 0.05
EMPTY_S_MAX = 20

# The first program. The kernel's settings are the machine's own in any namespace: they are read-only but for
# those of the network, which are the namespace's, and the kubelet is shown the values that it wants, so that
# it does not try to change them. The root file system is read-only too: what a server writes is in the folder
# of the instance, or gone with it. The first program waits, and takes in the orphans of containers meanwhile.
INSIDE = """
set -e
folder=$1
shift
mount -t proc proc /proc
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
mount --bind "$folder" "$folder"
mount -o remount,bind,ro /
for own in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$own"; done
mkdir /run/shown
for wanted in "$@"; do
    file=/run/shown/$(echo "${wanted%=*}" | tr / -)
    echo "${wanted#*=}" > "$file"
done
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net
for wanted in "$@"; do
    mount --bind "/run/shown/$(echo "${wanted%=*}" | tr / -)" "/proc/sys/${wanted%=*}"
done
: > "$folder/inside"
sleep infinity &
wait $!
"""


@dataclass(frozen=True)
class Net:
    """The addresses of one cluster: 256 of them, the upper half for pods."""

    block: int

    @property
    def host(self) -> str:
        """The machine's end of the cable: what listens there can be reached from pods."""
        return f"10.199.{self.block}.1"

    @property
    def node(self) -> str:
        return f"10.199.{self.block}.2"

    @property
    def pods(self) -> str:
        return f"10.199.{self.block}.128/25"


def first_words(instance: Instance) -> list[str]:
    """The first program of the namespaces, to be run in private mount and PID namespaces."""
    wanted = [f"{name}={value}" for name, value in WANTED_OF_THE_KERNEL.items()]
    return ["unshare", "--net", "--", "sh", "-c", INSIDE, "bed", str(instance.folder), *wanted]


def entering(first: int, *words: str) -> list[str]:
    """The command, run beside the process `first` in its namespaces."""
    return ["nsenter", f"--target={first}", "--mount", "--pid", "--net", "--", *words]


def refuse_hidden(place: Place) -> None:
    """The cluster has folders of its own where the machine has these, so it would not see the bed's there."""
    for path in (place.cache, place.run):
        for own in OWN_FOLDERS:
            if path.is_relative_to(Path(own).resolve()):
                raise Trouble(
                    f"`kubernetes` cannot see `{path}`, because it has a {own} of its own; "
                    "set GLIDEPATH_BED_CACHE or GLIDEPATH_BED_RUN to a folder elsewhere"
                )


# The cable.


def free_net() -> Net:
    """A block of addresses of which the machine has none; taken at random, so that two seldom ask for one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for block in random.sample(BLOCKS, len(BLOCKS)):
            net = Net(block)
            try:  # Only an address of the machine itself can be bound.
                any_socket.bind((net.host, 0))
            except OSError:
                return net
    raise Trouble("every block of 10.199.0.0/16 is taken; `bed/ctl leaks` tells by whom")


def connect(instance: Instance, net: Net, first: int) -> None:
    """Lays the cable: the machine reaches node and pods by it, pods reach the machine's end, nothing else."""
    cable = tag(instance.folder)
    here = (
        ["link", "add", cable, "type", "veth", "peer", "name", CABLE_INSIDE, "netns", str(first)],
        ["addr", "add", f"{net.host}/25", "dev", cable],
        ["link", "set", cable, "up"],
        ["route", "add", net.pods, "via", net.node, "dev", cable],
    )
    inside = (
        ["addr", "add", f"{net.node}/25", "dev", CABLE_INSIDE],
        ["link", "set", CABLE_INSIDE, "up"],
    )
    for words in here:
        run(["ip", *words], limit_s=TOOL_S_MAX).must("the cluster could not be connected")
    for words in inside:
        done = run(entering(first, "ip", *words), limit_s=TOOL_S_MAX)
        done.must("the cluster could not be connected")


def disconnect(instance: Instance) -> None:
    """Takes the machine's end away; the other one goes with it. Nothing to do where it is gone already."""
    cable = tag(instance.folder)
    if cable in {name for _, name in socket.if_nameindex()}:
        done = run(["ip", "link", "delete", cable], limit_s=TOOL_S_MAX)
        if cable in {name for _, name in socket.if_nameindex()}:
            done.must(f"the network device `{cable}` could not be taken away")


# Control groups.


def groups(instance: Instance) -> list[Path]:
    """The folder of the instance in each hierarchy, whether it is there or not."""
    return [path / tag(instance.folder) for path in sorted(CONTROL_GROUPS.iterdir()) if path.is_dir()]


def make_groups(instance: Instance, hierarchies: frozenset[str]) -> None:
    for path in groups(instance):
        if path.parent.name in hierarchies:
            path.mkdir(exist_ok=True)


def remove_groups(instance: Instance) -> None:
    """Takes the groups away, the inner ones first; one is free when its last process has been reaped."""
    until = time.monotonic() + EMPTY_S_MAX
    while there := [path for path in groups(instance) if path.is_dir()]:
        for top in there:
            for path in inner_first(top):
                with contextlib.suppress(OSError):
                    path.rmdir()
        if time.monotonic() > until:
            raise Trouble(
                f"control groups of `{instance.name}` are still in use: {', '.join(map(str, there))}"
            )
        time.sleep(POLL_S)


def inner_first(top: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)
