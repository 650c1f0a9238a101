"""`glidepath config import prp`: the ini files of the PRP provisioner come in, a configuration goes out.

It does what those files said, without what the provisioner did besides: offers are fitted to the jobs, the
published rule stays in force, and every key that is not carried over is named with the reason.
"""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from glidepath.core.text import nearest, one_line

# The largest pod that is asked for; the provisioner had no bound but the cluster's.
CPUS_MAX, MEMORY_MAX, DISK_MAX, GPUS_MAX = 64, "256GiB", "1TiB", 8
# What it gave jobs that said nothing, in its own units.
# Its images take only jobs whose disk is exactly that of the pod, where 8,000,000 KB stand for all that ask
# for less: rounded up, that is 7813 MiB.
MEMORY_MIB_MIN, DISK_MIB_MIN, STORAGE_DEFAULT = 4096, 7813, "20000"
TOKEN_SECRET = "prp-htcondor-wn-secret"
NAME_LETTERS_MAX = 40

DEFAULTS = {
    "namespace": "",
    "app_name": "prp-wn",
    "k8s_image": "sfiligoi/prp-portal-wn",
    "k8s_image_pull_policy": "Always",
    "priority_class": "",
    "priority_class_cpu": "",
    "priority_class_gpu": "",
    "service_account_name": "",
    "tolerations_list": "",
    "node_selectors_dict": "",
    "node_affinity_dict": "",
    "labels_dict": "",
    "annotations_dict": "",
    "envs_dict": "",
    "pvc_volumes_dict": "",
    "config_volumes_dict": "",
    "resources_dict": "",
    "k8s_job_ttl": "",
    "force_k8s_namespace_matching": "yes",
    "request_fuse": "yes",
    "storage_mbs": STORAGE_DEFAULT,
    "use_large_limit": "yes",
    "condor_host": "prp-cm-htcondor.htcondor-portal.svc.cluster.local",
    "k8s_domain": "optiputer.net",
    "additional_requirements": "",
    "schedd_whitelist_regexp": ".*",
    "max_pods_per_cluster": "20",
    "max_submit_pods_per_cluster": "1000",
    "sleep_time": "120",
}
_ESCAPES = (("&colon;", ":"), ("&comma;", ","), ("&amp;", "&"))
_PLAIN_PATTERN = re.compile(r"(?:[A-Za-z0-9_@-]|\\\.|\.\*)*")


class PrpError(ValueError):
    """What is wrong with a file, with its name."""


@dataclass(frozen=True, slots=True)
class Imported:
    text: str  # TOML
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Import:
    values: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def said(self, key: str) -> str:
        return self.values.get(key, DEFAULTS[key])

    def yes(self, key: str) -> bool:
        return self.said(key).strip().lower() in ("yes", "true", "1", "on")

    def listed(self, key: str) -> list[str]:
        return [_unescaped(part.strip()) for part in self.said(key).split(",") if part.strip()]

    def pairs(self, key: str) -> list[tuple[str, str]]:
        found = []
        for part in self.said(key).split(","):
            if not part.strip():
                continue
            left, colon, right = part.partition(":")
            if not colon:
                raise PrpError(f"`{key}`: `{one_line(part.strip())}` has no `:`")
            found.append((_unescaped(left.strip()), _unescaped(right.strip())))
        return found

    def whole(self, key: str) -> int:
        text = self.said(key).strip()
        if not text.isdecimal() or not 0 < int(text) <= 10**9:
            raise PrpError(f"`{key}`: `{one_line(text)}` is no whole number above zero")
        return int(text)


def imported(files: Iterable[tuple[str, str]]) -> Imported:
    """Names and contents of files; what a later one says goes before what an earlier one said."""
    told = _Import(_read(files))
    site = _name(told.said("app_name"))
    namespace = told.said("namespace")
    if not namespace:
        told.notes.append("`namespace` is not set there; that of the pod or of the kubeconfig is used")
    _left_out(told)
    sections = [
        ("policy", _policy(told)),
        (f"pools.{site}", [("kind", '"condor"'), ("collector", _text(told.said("condor_host")))]),
        (f"pools.{site}.condor", _schedds(told)),
        (f"sites.{site}", [("kind", '"kubernetes"'), ("pools", f"[{_text(site)}]")]),
        (f"sites.{site}.kubernetes", _cluster(told, site)),
        (f"sites.{site}.offers.fitted", _offer(told)),
    ]
    lines = ["# Made from the configuration of a PRP provisioner.", *(f"# {note}." for note in told.notes)]
    for name, rows in sections:
        if rows:
            lines += ["", f"[{name}]", *(f"{key} = {value}" for key, value in rows)]
    return Imported("\n".join(lines) + "\n", tuple(told.notes))


def _read(files: Iterable[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, str] = {}
    notes: list[str] = []
    for name, content in files:
        parser = configparser.ConfigParser(interpolation=None, default_section="\0")
        try:
            parser.read_string(content, source=name)
        except configparser.Error as error:
            raise PrpError(f"{name}: {one_line(str(error))}") from None
        for section in parser.sections():
            for key, value in parser.items(section):
                if key not in DEFAULTS:
                    near = nearest(key, DEFAULTS)
                    hint = f"; did you mean `{near}`?" if near else ""
                    notes.append(f"{name}: `{one_line(key)}` is no key of the provisioner{hint}")
                else:
                    values[key] = value.strip()
    if notes:
        raise PrpError("\n".join(notes))
    return values


def _policy(told: _Import) -> list[tuple[str, str]]:
    keys = ("max_pods_per_cluster", "max_submit_pods_per_cluster")
    return [("name", '"prp"'), *((key, str(told.whole(key))) for key in keys)]


def _schedds(told: _Import) -> list[tuple[str, str]]:
    """Its patterns are regular expressions; those that only have `.*` in them can be said here."""
    text = told.said("schedd_whitelist_regexp").strip()
    if text in ("", ".*"):
        return []
    if not _PLAIN_PATTERN.fullmatch(text):
        told.notes.append(
            f"`schedd_whitelist_regexp` `{one_line(text)}` cannot be said here; name the schedds in `schedds`"
        )
        return []
    pattern = text.replace(".*", "*").replace("\\.", ".")
    return [("schedds", f"[{{ name = {_text(pattern)} }}]")]


def _cluster(told: _Import, site: str) -> list[tuple[str, str]]:
    told.notes.append("its images begin as root, so the level is `image`; the namespace must let them")
    rows = [("preset", '"prp"'), ("level", '"image"'), ("image", _text(told.said("k8s_image")))]
    if told.said("namespace"):
        rows.append(("namespace", _text(told.said("namespace"))))
    rows.append(("pull_policy", _text(told.said("k8s_image_pull_policy"))))
    rows.append(("token_secret", _text(TOKEN_SECRET)))
    plain = told.said("priority_class_cpu") or told.said("priority_class")
    if plain:
        rows.append(("priority_class", _text(plain)))
    if told.said("priority_class_gpu"):
        rows.append(("priority_class_gpu", _text(told.said("priority_class_gpu"))))
    rows.append(("overhead", _text("prp" if told.yes("use_large_limit") else "prp-even")))
    rows += _nodes(told)
    labels = {**dict(told.pairs("labels_dict")), "k8s-app": told.said("app_name")}
    rows.append(("labels", _table(labels)))
    rows += [("annotations", _table(pairs))] if (pairs := dict(told.pairs("annotations_dict"))) else []
    rows.append(("env", _table(_env(told))))
    resources = dict(told.pairs("resources_dict"))
    if told.yes("request_fuse"):
        resources["smarter-devices/fuse"] = "1"
    rows += [("resources", _table(resources))] if resources else []
    rows.append(("storage", _text(f"{told.whole('storage_mbs')}MiB")))
    return rows + _mounts(told)


def _env(told: _Import) -> dict[str, str]:
    forced = "yes" if told.yes("force_k8s_namespace_matching") else "no"
    found = {**dict(told.pairs("envs_dict")), "K8S_DOMAIN": told.said("k8s_domain")}
    found["FORCE_K8SNAMESPACE_MATCHING"] = forced
    if told.said("additional_requirements"):
        found["ADDITIONAL_REQUIREMENTS"] = told.said("additional_requirements")
    return found


def _nodes(told: _Import) -> list[tuple[str, str]]:
    terms = [
        f"{{ key = {_text(key)}, any_of = [{_text(value)}] }}"
        for key, value in told.pairs("node_selectors_dict")
    ]
    for key, values in told.pairs("node_affinity_dict"):
        which = "none_of" if key.startswith("^") else "any_of"
        listed = ", ".join(_text(value) for value in values.split("|"))
        terms.append(f"{{ key = {_text(key.removeprefix('^'))}, {which} = [{listed}] }}")
    tolerated = [
        f'{{ key = {_text(key)}, effect = "NoSchedule" }}' for key in told.listed("tolerations_list")
    ]
    rows = [("nodes", f"[{', '.join(terms)}]")] if terms else []
    return rows + ([("tolerations", f"[{', '.join(tolerated)}]")] if tolerated else [])


def _mounts(told: _Import) -> list[tuple[str, str]]:
    claims, configs = [], []
    for claim, path in told.pairs("pvc_volumes_dict"):
        name = claim.lstrip("!#")
        marks = claim[: len(claim) - len(name)]
        parts = [f"claim = {_text(name)}", f"path = {_text(path)}"]
        parts.append(f"read_only = {'true' if '!' in marks else 'false'}")
        parts += ["shares_mounts = true"] if "#" in marks else []
        claims.append(f"{{ {', '.join(parts)} }}")
    for name, path in told.pairs("config_volumes_dict"):
        file = path.rpartition("/")[2]
        configs.append(f"{{ name = {_text(name)}, path = {_text(path)}, key = {_text(file)} }}")
    rows = [("claims", f"[{', '.join(claims)}]")] if claims else []
    return rows + ([("configs", f"[{', '.join(configs)}]")] if configs else [])


def _offer(told: _Import) -> list[tuple[str, str]]:
    rows = [
        ("fitted", "true"),
        ("cpus", str(CPUS_MAX)),
        ("memory", _text(MEMORY_MAX)),
        ("disk", _text(DISK_MAX)),
        ("gpus", str(GPUS_MAX)),
        ("min", f'{{ cpus = 1, memory = "{MEMORY_MIB_MIN}MiB", disk = "{DISK_MIB_MIN}MiB" }}'),
        ("idle", '"20m"'),
        ("lifetime", '"24h"'),
    ]
    if told.yes("force_k8s_namespace_matching") and told.said("namespace"):
        rows.append(("community", _text(told.said("namespace"))))
    if told.said("additional_requirements"):
        rows.append(("condor", f"{{ start = [{_text(told.said('additional_requirements'))}] }}"))
    told.notes.append(
        f"pods have at most {CPUS_MAX} CPUs, {MEMORY_MAX} and {GPUS_MAX} GPUs; see the offer `fitted`"
    )
    return rows


def _left_out(told: _Import) -> None:
    reasons = {
        "service_account_name": "pods get no service account; pilots need none",
        "k8s_job_ttl": "ended pods are removed once their statistics are kept",
        "sleep_time": "glidepath looks when something changes, see `[cycle]`",
    }
    for key, why in reasons.items():
        if told.values.get(key):
            told.notes.append(f"`{key}` is left out: {why}")


def _name(text: str) -> str:
    found = re.sub(r"[^a-z0-9-]+", "-", text.lower())[:NAME_LETTERS_MAX].strip("-")
    return found or "prp-wn"


def _unescaped(text: str) -> str:
    for word, letter in _ESCAPES:
        text = text.replace(word, letter)
    return text


def _text(value: str) -> str:
    """As TOML has it; its escapes are those of JSON."""
    return json.dumps(value)


def _table(pairs: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_text(key)} = {_text(value)}" for key, value in sorted(pairs.items())) + " }"
