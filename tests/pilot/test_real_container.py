"""Jobs that bring an image of their own: on real pilots that can start it, and on none that cannot."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from bed.leaks import every_pid, parent_of, read
from bed.parts.condor import Pool
from bed.parts.condor_root import USERS
from tests.embedded.world import until

from bed_pool import condor_pool
from glidepath.condor.pool import pool as condor
from glidepath.config.checks import own_values
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import Instant, OfferKey, PoolName, Resources, SiteName
from glidepath.pilot import pilot_file
from glidepath.pilot.parts.probes import Found, ad_lines, found_in, promised_containers, sif_test
from glidepath.ports import Place
from glidepath.terms import OfferTerms
from pilot.pilot_world import WAIT_S, PilotWorld

pytestmark = pytest.mark.real

INSIDE_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# What an image needs to run a shell: it is made of the bed's own files, so that nothing is fetched.
PROGRAMS = ("usr/bin/dash", "usr/bin/cat", "usr/bin/sleep")
LIBRARIES = ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6")
FOLDERS = ("bin", "dev", "etc", "lib/x86_64-linux-gnu", "lib64", "proc", "sys", "tmp", "var/tmp")
BUILD_S_MAX = 120.0
SAID = ("HasContainer", "HasSandboxImage", "HasSIF")
PROMISED = [[name, "true"] for name in SAID]
CAN = {**dict.fromkeys(SAID, True), "GlidepathContainers": "apptainer", "GlidepathHealthy": True}
READS = "cat /only-in-the-image; cat /etc/os-release"
NO_IMAGE = b"no image, and nobody looks at it"
# Longer than any test, and no number that another program would sleep.
NAP_S = 61_234


class Entered(subprocess.Popen[bytes]):
    """A program inside the bed: signals are for it, not for the one that brought it there."""

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            for pid in [one for one in every_pid() if parent_of(one) == self.pid]:
                os.kill(pid, sig)


class ContainerWorld(PilotWorld):
    """Pilots also inside the bed, where there is apptainer, and images of ann's."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.word = uuid.uuid4().hex
        self.name = f"box-{self.word[:8]}"
        self.images = pool.home("ann") / "images"

    def files(self) -> str:
        """A folder with a few programs, and a file with a word that is nowhere else."""
        folder, root = self.images / "files", self.pool.build / "root"
        for name in FOLDERS:
            (folder / name).mkdir(parents=True)
        for name in PROGRAMS:
            shutil.copy(root / name, folder / "bin")
        (folder / "bin/dash").rename(folder / "bin/sh")
        for name in LIBRARIES:
            shutil.copy((root / name).resolve(), folder / name)
        (folder / "only-in-the-image").write_text(f"{self.word}\n")
        for path in (self.images, *self.images.rglob("*")):
            os.chown(path, USERS["ann"], USERS["ann"])
        return str(folder)

    def built(self, folder: str, name: str, *options: str) -> str:
        """An image of these files as users make theirs: with what apptainer itself puts into it."""
        image = str(self.images / name)
        words = ("apptainer", "build", *options, image, folder)
        self.pool.run(*words, user="ann", timeout_s=BUILD_S_MAX).must("no image")
        return image

    def submit_boxed(self, image: str, script: str = READS) -> int:
        lines = ("universe = container", f"container_image = {image}", "should_transfer_files = yes")
        return self.submit(script, *lines, "error = err.$(Cluster).$(Process)")

    def submit_plain(self, script: str) -> int:
        """Only for the pilot of this test: one that another test killed is listed for minutes."""
        return self.submit(script, f'requirements = TARGET.GlidepathPilot == "{self.name}"')

    def start_inside(self, name: str, *options: str, terms: Mapping[str, object] | None = None) -> Path:
        """As `start`, on the machine that the bed is inside: with its own HTCondor, and with apptainer."""
        own = {"GLIDEPATH_CONDOR": "machine"}
        folder = self.furnish(name, uid=USERS["pilot"], terms=terms or {}, token=None, settings=own)
        command = ["python3", "-I", str(pilot_file(self.home)), "--kind", "condor", "--name", name]
        command += ["--folder", str(folder), "--settings", str(folder / "settings.json"), "--pool", "bed"]
        command += ["--cpus-milli", "2000", "--memory-mib", "2000", "--disk-mib", "500", *options]
        marks = {"GLIDEPATH_BED_RUN": os.environ["GLIDEPATH_BED_RUN"]}
        with (folder / "pilot.log").open("wb") as log:
            self.pilots[name] = Entered(
                self.pool.beside(*command, user="pilot"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": INSIDE_PATH, **marks},
            )
        return folder

    def told(self, name: str) -> dict[str, object]:
        """What the pool has heard of this pilot's containers, once it was probed."""
        until(
            "it is probed",
            lambda: any("GlidepathContainers" in ad for ad in self.slots(name)),
            wait_s=WAIT_S,
        )
        slot = next(ad for ad in self.slots(name) if ad["SlotType"] == "Partitionable")
        return {key: slot.get(key) for key in CAN}

    def drained(self) -> dict[str, Any]:
        """Told to take no more, it leaves at once and well: none of its jobs is running."""
        self.send(self.name, signal.SIGTERM)
        summary = self.ended(self.name)
        assert (summary["why"], summary["ok"]) == ("drained", True)
        return summary

    def complaints(self, cluster: int) -> str:
        return (self.pool.home("ann") / f"err.{cluster}.0").read_text()

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.images, ignore_errors=True)


@pytest.fixture
def boxes(request: pytest.FixtureRequest) -> Iterator[ContainerWorld]:
    pool = condor_pool(request.config)
    tried = pool.run("unshare", "--user", "--map-root-user", "true", user="pilot")
    if tried.code:
        pytest.skip(f"ordinary users may make no user namespaces here: {tried.err.strip()}")
    made = ContainerWorld(pool)
    try:
        yield made
    finally:
        made.close()


def takes_no_such_jobs(boxes: ContainerWorld, start: Callable[..., Path]) -> None:
    image = boxes.files()
    Path(f"{image}.sif").write_bytes(NO_IMAGE)
    boxed = [boxes.submit_boxed(image), boxes.submit_boxed(f"{image}.sif")]
    plain = boxes.submit_plain("echo here")  # Behind them in the queue: when it runs, they were looked at.
    start(boxes.name)
    boxes.joined(boxes.name)
    none = {**dict.fromkeys(SAID), "GlidepathContainers": "", "GlidepathHealthy": True}
    assert boxes.told(boxes.name) == none
    boxes.done(plain)
    assert boxes.output(plain) == "here\n"
    assert boxes.drained()["jobs_run"] == 1
    assert [boxes.statuses(job) for job in boxed] == [[1], [1]]


def test_jobs_run_in_the_images_that_they_bring(boxes: ContainerWorld) -> None:
    """The archive with apptainer keeps only its newest: where the pinned one has gone, nobody takes them."""
    if boxes.pool.without_containers:
        print(boxes.pool.without_containers)
        takes_no_such_jobs(boxes, boxes.start_inside)
        return
    files = boxes.files()
    unpacked = boxes.submit_boxed(boxes.built(files, "box", "--sandbox"))
    packed = boxes.submit_boxed(boxes.built(files, "box.sif"))
    plain = boxes.submit_plain("cat /only-in-the-image || echo no image")
    boxes.start_inside(boxes.name)
    boxes.joined(boxes.name)
    assert boxes.told(boxes.name) == CAN
    boxes.done(unpacked, packed, plain, wait_s=2 * WAIT_S)
    for job in (unpacked, packed):
        assert boxes.output(job) == f"{boxes.word}\n", boxes.complaints(job)
        assert "/etc/os-release" in boxes.complaints(job), "nothing of the worker's own system is seen"
    assert boxes.output(plain) == "no image\n"
    assert boxes.drained()["jobs_run"] == 3
    assert boxes.left(boxes.name) == []


def test_a_pilot_that_was_promised_to_start_them_does_and_takes_them_with_it(boxes: ContainerWorld) -> None:
    if boxes.pool.without_containers:
        return  # Said by the test above: there is no container that could be left.
    job = boxes.submit_boxed(boxes.built(boxes.files(), "box.sif"), f"sleep {NAP_S}")
    boxes.start_inside(boxes.name, terms={"attributes": PROMISED})
    boxes.joined(boxes.name)
    assert boxes.told(boxes.name) == CAN
    until("it sleeps in its image", sleepers, wait_s=WAIT_S)
    boxes.send(boxes.name, signal.SIGINT)
    summary = boxes.ended(boxes.name)
    assert (summary["why"], summary["ok"]) == ("stopped", True)
    assert (sleepers(), boxes.left(boxes.name)) == ([], [])
    until("the job waits again", lambda: boxes.statuses(job) == [1], wait_s=WAIT_S)


def sleepers() -> list[int]:
    """The shell of the job is not meant, it has other words; nor is anything of another session."""
    own = os.environ["GLIDEPATH_BED_RUN"].encode()
    found = [pid for pid in every_pid() if read(pid, "cmdline") == f"sleep\0{NAP_S}\0".encode()]
    return [pid for pid in found if own in read(pid, "environ")]


def test_a_pilot_without_the_programs_gets_no_such_jobs(boxes: ContainerWorld) -> None:
    takes_no_such_jobs(boxes, boxes.start)
    assert boxes.left(boxes.name) == []


def test_a_pilot_that_cannot_do_what_was_promised_takes_nothing(boxes: ContainerWorld) -> None:
    plain = boxes.submit_plain("echo no")
    boxes.start(boxes.name, "--idle-s", "5", terms={"attributes": PROMISED})
    boxes.joined(boxes.name)
    assert boxes.told(boxes.name) == {**CAN, "GlidepathContainers": "", "GlidepathHealthy": False}
    assert boxes.slots(boxes.name)[0]["GlidepathWhy"] == "there is no apptainer or singularity"
    assert (boxes.ended(boxes.name)["jobs_run"], boxes.statuses(plain)) == (0, [1])


def test_pilots_are_asked_for_such_jobs_only_where_the_offer_has_it(boxes: ContainerWorld) -> None:
    image = boxes.files()
    Path(f"{image}.sif").write_bytes(NO_IMAGE)
    boxes.submit_boxed(image)
    boxes.submit_boxed(f"{image}.sif")
    boxes.submit("echo anywhere", memory="401")
    size = Resources(2000, 2048, 10240)
    attributes = {
        "plain": (),
        "folders": (("HasContainer", "true"), ("HasSandboxImage", "true")),
        "all": tuple((name, "true") for name in SAID),
        "refused": tuple((name, "false") for name in SAID),
    }
    offers = tuple(Offer(SiteName("a"), name, size) for name in attributes)
    terms = {OfferKey(f"a/{name}"): OfferTerms(attributes=said) for name, said in attributes.items()}
    table = {"collector": boxes.pool.address, "deadline": "20s"}
    door = condor(PoolName("p"), own_values(condor, table), Place(Path("/"), "", terms=terms))
    try:
        (source,) = door.sources()
        found = [(each.idle, each.fits) for each in source.demand(offers, now=Instant(1_000_000)).demands]
    finally:
        door.close()
    everywhere = ("a/all", "a/folders", "a/plain", "a/refused")
    assert {fits for idle, fits in found if idle} == {("a/all",), ("a/all", "a/folders"), everywhere}
    assert sum(idle for idle, _ in found) == 3


# The probe by itself, with a runtime that does as it is told.

RUNTIME = """#!/bin/sh
case "$1" in
build) {build} ;;
exec) {start} ;;
esac
"""


@pytest.mark.parametrize(
    ("build", "start", "expected"),
    [
        (': > "$3"', "exit 0", ""),
        (': > "$3"', "echo FATAL: no; exit 255", "runtime does not start an image in one file: FATAL: no"),
        ("echo no mksquashfs; exit 1", "exit 0", None),
        ("exit 0", "exit 0", None),
        (': > "$3"', 'test "$APPTAINER_TMPDIR" = "${0%/*}"', ""),
    ],
    ids=["works", "does not start", "cannot be made", "is not made", "unpacks in the scratch"],
)
def test_an_image_in_one_file_is_tried_where_one_can_be_made(
    tmp_path: Path, build: str, start: str, expected: str | None
) -> None:
    runtime = tmp_path / "runtime"
    runtime.write_text(RUNTIME.format(build=build, start=start))
    runtime.chmod(0o755)
    assert sif_test(str(runtime), str(tmp_path)) == expected
    kept = [] if expected is None else [".glidepath-image.sif"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*kept, "runtime"]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ([], "no"),
        ([("HasCvmfs", "true")], "no"),
        ([("HasSingularity", "true")], "yes"),
        ([("hascontainer", "true")], "yes"),
        ([("HasSIF", " False ")], "no"),
        ([("HasContainer", "true"), ("HasSIF", "true")], "sif"),
    ],
)
def test_what_an_offer_promises_of_containers(attributes: list[tuple[str, str]], expected: str) -> None:
    assert promised_containers(attributes) == expected


def test_only_an_image_in_one_file_that_was_started_is_told_of() -> None:
    seen = found_in('{"trouble": "", "containers": "apptainer", "sif": true}', 5.0)
    assert seen == Found("", "apptainer", 5.0, sif=True)
    for found, expected in ((seen, True), (seen._replace(sif=False), False)):
        lines = ad_lines(found, latched="", offset_s=None, run=0, failed=0)
        assert ("HasSIF = true" in lines, lines[-1]) == (expected, "-")
