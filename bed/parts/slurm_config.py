"""The configuration texts of a Slurm site: ports, nodes and partitions come in, text goes out.

Several nodes are daemons of one machine, each with a name and port of its own, and no more cores than they
are told to have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bed.parts.batch_root import CLUSTER

# Two kinds of limits, and one that is never shared; with more nodes than any of them allows to a job.
PARTITIONS = (
    "PartitionName=short Nodes={nodes} Default=YES MaxTime=30 MaxNodes=1",
    "PartitionName=long Nodes={nodes} MaxTime=7-00:00:00 MaxNodes=2",
    "PartitionName=whole Nodes={nodes} MaxTime=2:00:00 MaxNodes=2 OverSubscribe=EXCLUSIVE",
    "PartitionName=minute Nodes={nodes} MaxTime=1 MaxNodes=1",
)

SLURM = """# Written by the bed at the start of this instance.
ClusterName={cluster}
SlurmctldHost=login(127.0.0.1)
SlurmctldPort={slurmctld}
SlurmUser=root
AuthType=auth/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={slurmdbd}
AccountingStorageEnforce=associations
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,bf_interval=5
MinJobAge={kept_s}
KillWait=5
DefMemPerCPU=500
{nodes}
{partitions}
"""
SLURMDBD = """# Written by the bed at the start of this instance.
AuthType=auth/munge
DbdHost=login
DbdAddr=127.0.0.1
DbdPort={slurmdbd}
SlurmUser=root
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CommitDelay=0
"""
# The node's daemon looks for control groups, which nothing here uses, and ends where it finds none; of the
# first kind it takes note only when it makes one.
CGROUP = "CgroupPlugin=cgroup/v1"
NODE = (
    "NodeName={name} NodeHostname=login NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory={memory_mib}"
    " TmpDisk={disk_mib} State=UNKNOWN"
)


def slurm_text(
    folder: Path,
    ports: Mapping[str, int],
    nodes: Sequence[str],
    *,
    settings: Mapping[str, object],
    partitions: Sequence[str] = PARTITIONS,
) -> str:
    amounts = {name: settings[name] for name in ("cpus", "memory_mib", "disk_mib")}
    rows = [NODE.format(name=name, port=ports[name], **amounts) for name in nodes]
    return SLURM.format(
        cluster=CLUSTER,
        folder=folder,
        slurmctld=ports["slurmctld"],
        slurmdbd=ports["slurmdbd"],
        kept_s=settings["kept_s"],
        nodes="\n".join(rows),
        partitions="\n".join(row.format(nodes=",".join(nodes)) for row in partitions),
    )


def slurmdbd_text(ports: Mapping[str, int]) -> str:
    return SLURMDBD.format(slurmdbd=ports["slurmdbd"])
