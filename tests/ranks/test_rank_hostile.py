"""What users write in their jobs, and what of it can be seen in a pod: only the documented places."""

from __future__ import annotations

import copy
import json
import re
import signal
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from glidepath.cluster.kubernetes.checked import trouble
from glidepath.cluster.kubernetes.pod import anchor_of, pod_of, secret_of
from glidepath.core.place.rank import File, RankSet, Seat, SetKey, Volume
from glidepath.core.quantity import NodeName, Resources
from glidepath.store.placed_spec import SIGNALS
from kube.pod_builders import leaves
from ranks.rank_builders import UID, ranks, settings, work

LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
ODD = (
    *("$(HOME)", "$$(HOME)", "--name=x", "../../etc", "a\nb", "\ud800", "\u202e", "\0", ";", "`id`", "$(id)"),
    *(
        '"}],"hostNetwork":true,"x":[{"',
        "x" * 300,
        "kube-system",
        "-",
        "..",
        "{{ .Values }}",
        "GLIDEPATH_RANK",
    ),
    *("/etc/glidepath/job/go", "/proc", "/", "//", "a:b", "data", "secret", "http://127.0.0.1/", "a b:1"),
)
WORDS = st.one_of(st.text(max_size=40), st.sampled_from(ODD))
SMALL = st.integers(-(2**40), 2**40)
SETTINGS = settings(
    volumes={"data": {"claim": "data"}, "kept": {"claim": "kept", "projects": ["physics"]}},
    counted={"mig": "nvidia.com/mig-1g.5gb"},
    runtimes={"kata": {"runtime_class": "kata"}},
    gpu_share={"resource": "nvidia.com/gpu.shared", "parts": 4},
)
NEVER = {
    *("hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "privileged", "serviceAccountName"),
    *("serviceAccount", "projected", "csi", "nodeName", "schedulerName", "initContainers", "lifecycle"),
    *("configMap", "nfs", "hostAliases", "dnsConfig", "externalIPs", "loadBalancerIP", "externalName"),
}


@st.composite
def hostile_sets(draw: st.DrawFn) -> RankSet:
    """Usual sets in which one to four things are anything."""
    made = ranks(env=(("A", "b"),), files=(File("in/a", "x"),), volumes=(Volume("data", "/data"),))
    changes: dict[str, Any] = {
        "key": lambda: SetKey(draw(WORDS)),
        "seats": lambda: tuple(Seat(NodeName(draw(WORDS))) for _ in range(draw(st.integers(0, 3)))),
        "owner": lambda: draw(WORDS),
        "project": lambda: draw(WORDS),
        "name": lambda: draw(WORDS),
        "size": lambda: Resources(*(abs(draw(SMALL)) for _ in range(4))),
        "gpu_milli": lambda: draw(SMALL),
        "counted": lambda: ((draw(st.one_of(WORDS, st.just("mig"))), draw(SMALL)),),
        "runtime": lambda: draw(WORDS),
        "limit_s": lambda: draw(SMALL),
        "notice_s": lambda: draw(SMALL),
        "notice_signal": lambda: draw(WORDS),
        "grace_s": lambda: draw(SMALL),
        "gather_s_max": lambda: draw(SMALL),
        "work.command": lambda: tuple(draw(st.lists(WORDS, max_size=3))),
        "work.image": lambda: draw(WORDS),
        "work.env": lambda: ((draw(WORDS), draw(WORDS)),),
        "work.workdir": lambda: draw(WORDS),
        "work.files": lambda: (File(draw(WORDS), draw(WORDS), draw(SMALL)),),
        "work.volumes": lambda: (Volume(draw(st.one_of(WORDS, st.just("kept"))), draw(WORDS)),),
        "work.shm_mib": lambda: draw(SMALL),
        "work.ports": lambda: tuple(draw(st.lists(SMALL, max_size=2))),
    }
    for name in draw(st.lists(st.sampled_from(sorted(changes)), min_size=1, max_size=4, unique=True)):
        if name.startswith("work."):
            made = replace(made, work=replace(made.work, **{name[5:]: changes[name]()}))
        else:
            made = replace(made, **{name: changes[name]()})
    return made


@given(hostile_sets())
@example(ranks(owner="\ud800$(HOME)", project="\u202e", name="\ud800"))
@hypothesis_settings(max_examples=10_000)
def test_a_set_is_refused_with_one_sentence_or_changes_only_the_documented_places(of: RankSet) -> None:
    why = trouble(of, SETTINGS)
    assert why.isprintable()
    if why:
        return
    made = pod_of(of, len(of.seats) - 1, SETTINGS, cluster="lab", anchor_uid=UID)
    anchor, secret = anchor_of(of, "lab"), secret_of(of, "lab", UID)
    for each in (made, anchor, secret):
        assert json.loads(json.dumps(each, ensure_ascii=False).encode("utf-8")) == each
        assert all(LABEL.fullmatch(value) for value in each["metadata"]["labels"].values())
        assert (
            all(value.replace("\n", "").isprintable() for value in each["metadata"]["annotations"].values())
            if ("annotations" in each["metadata"])
            else True
        )
        assert not NEVER & {key for key, _ in leaves(each)}
    (only,) = made["spec"]["containers"]
    claims = {value for key, value in leaves(made["spec"]) if key == "claimName"}
    assert claims <= {"data", "kept"}
    assert "kept" not in claims or of.project == "physics"
    assert {value for key, value in leaves(made["spec"]) if key == "secretName"} <= {
        secret["metadata"]["name"]
    }
    # What is written is what a container gets: no variable is put in for it.
    for word in (*only["args"], *only["command"], *(row.get("value", "") for row in only["env"])):
        assert not re.search(r"(?<!\$)(\$\$)*\$\(", word)
    names = [row["name"] for row in only["env"]]
    assert len(set(names)) == len(names)
    assert without_documented(made) == without_documented(
        pod_of(_plain_like(of), len(of.seats) - 1, SETTINGS, cluster="lab", anchor_uid=UID)
    )


def _plain_like(of: RankSet) -> RankSet:
    """The same in what it is allowed to choose, with plain words everywhere else."""
    plain = ranks(command=("true",))
    return replace(
        plain,
        key=of.key,
        seats=of.seats,
        size=of.size,
        gpu_milli=of.gpu_milli,
        counted=of.counted,
        runtime=of.runtime,
        grace_s=of.grace_s,
        work=work(
            command=("true",),
            files=of.work.files,
            volumes=of.work.volumes,
            shm_mib=of.work.shm_mib,
            ports=of.work.ports,
        ),
    )


def without_documented(made: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(made)
    found["metadata"].pop("annotations")
    found["metadata"]["labels"].pop("glidepath/owner")
    (only,) = found["spec"]["containers"]
    for name in ("args", "env", "image", "startupProbe"):
        only.pop(name, None)
    return found


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"key": "1"}, "two whole numbers"),
        ({"nodes": ()}, "0 ranks"),
        ({"nodes": ("n" * 300,)}, "named as no node"),
        ({"size": Resources(0, 64)}, "some CPU"),
        ({"size": Resources(100, 1)}, "at least 8 MiB"),
        ({"limit_s": -1}, "the time limit is -1 s"),
        ({"grace_s": 10**12}, "no time that can be kept"),
        ({"notice_signal": "SIGKILL"}, "no signal for a notice"),
        ({"gpu_milli": 1001}, "from 1 to 1000"),
        ({"counted": (("tpu", 1),)}, "counts no `tpu`"),
        ({"counted": (("mig", -1),)}, "no amount"),
        ({"runtime": "gvisor"}, "there is `kata`"),
        ({"image": ""}, "names no image"),
        ({"image": "UPPER"}, "no name of an image"),
        ({"image": "a b"}, "no name of an image"),
        ({"image": "-x"}, "no name of an image"),
        ({"command": ()}, "the command is empty"),
        ({"command": ("",)}, "the command is empty"),
        ({"command": ("a\0b",)}, "NUL"),
        ({"command": ("\ud800",)}, "not valid text"),
        ({"command": ("x" * (1 << 20),)}, "use a file"),
        ({"env": (("1A", "x"),)}, "no name of a variable"),
        ({"env": (("GLIDEPATH_X", "x"),)}, "set by glidepath"),
        ({"env": (("A", "x"), ("A", "y"))}, "set twice"),
        ({"workdir": "relative"}, "no path that begins"),
        ({"workdir": "/a/../b"}, "no path that begins"),
        ({"shm_mib": -1}, "no size"),
        ({"ports": (0,)}, "no port"),
        ({"ports": (80, 80)}, "each once"),
        ({"files": (File("../x", ""),)}, "no path of a file"),
        ({"files": (File("/etc/glidepath/job/go", ""),)}, "folder of glidepath"),
        ({"files": (File("/etc//glidepath/x", ""),)}, "folder of glidepath"),
        ({"files": (File("a", ""), File("./a", ""))}, "two files have one path"),
        ({"files": (File("a", "", 0o4755),)}, "no mode"),
        ({"files": (File("a", "x" * (1 << 20)),)}, "use a file"),
        ({"files": tuple(File(f"f{n}", "") for n in range(101))}, "use an archive"),
        ({"volumes": (Volume("other", "/x"),)}, "no volume `other`"),
        ({"volumes": (Volume("kept", "/x"),)}, "no volume `kept`"),
        ({"volumes": (Volume("data", "/dev/shm"),)}, "no place"),
        ({"volumes": (Volume("data", "/etc/glidepath"),)}, "no place"),
        ({"volumes": (Volume("data", "/a"), Volume("data", "/a/."))}, "one path"),
    ],
)
def test_each_thing_that_cannot_be_is_refused_with_its_reason(more: dict[str, Any], words: str) -> None:
    assert words in trouble(ranks(**more), SETTINGS)


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "ubuntu:24.04",
        "registry.example.org:5000/a/b-c_d/e.f:v1.2-3",
        "localhost/x",
        "a/b@sha256:" + "0" * 64,
        "images.example.org/x:y@sha256:" + "f" * 64,
    ],
)
def test_usual_names_of_images_are_taken(image: str) -> None:
    assert trouble(ranks(image=image), SETTINGS) == ""


def test_images_may_be_bound_to_beginnings() -> None:
    bound = settings(images=["images.example.org/"])
    assert trouble(ranks(), bound) == ""
    assert "begin with `images.example.org/`" in trouble(ranks(image="docker.io/x"), bound)


def test_every_signal_that_is_taken_is_one_on_both_doors() -> None:
    for name in SIGNALS:
        assert trouble(ranks(notice_signal=name), SETTINGS) == "", name
        assert hasattr(signal, name), "the door of this machine asks for no more"
