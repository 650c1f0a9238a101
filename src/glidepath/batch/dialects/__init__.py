"""How each batch system is spoken to: one file each, pure functions from values to words and back."""

from __future__ import annotations

from collections.abc import Mapping

from glidepath.batch.dialect import Dialect
from glidepath.batch.dialects.htcondor import Htcondor
from glidepath.batch.dialects.lsf import Lsf
from glidepath.batch.dialects.pbs import Pbs
from glidepath.batch.dialects.sge import GridEngine
from glidepath.batch.dialects.slurm import Slurm

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (Slurm(), GridEngine(), Pbs(), Lsf(), Htcondor())
}
