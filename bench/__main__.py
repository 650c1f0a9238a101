"""`make bench`: every measurement, one after the other, with its verdict."""

from __future__ import annotations

import sys

from bench import (
    agents,
    batch_cycle,
    condor_demand,
    condor_reaction,
    decide,
    embedded,
    eta,
    job_bind,
    job_kueue,
    job_promise,
    job_start,
    job_submit,
    journal,
    kube_create,
    kube_list,
    kube_reaction,
    kube_watch,
    placement,
    policies,
    promises,
    rerun,
    startup,
    storms,
    trace,
    usage,
)


def main() -> int:
    codes = {}
    for name, measure in (
        ("decide", decide),
        ("journal", journal),
        ("usage", usage),
        ("startup", startup),
        ("embedded", embedded),
        ("agents", agents),
        ("job_promise", job_promise),
        ("job_submit", job_submit),
        ("job_kueue", job_kueue),
        ("storms", storms),
        ("trace", trace),
        ("rerun", rerun),
        ("placement", placement),
        ("promises", promises),
        ("eta", eta),
        ("condor_demand", condor_demand),
        ("condor_reaction", condor_reaction),
        ("batch_cycle", batch_cycle),
        ("kube_list", kube_list),
        ("kube_create", kube_create),
        ("kube_watch", kube_watch),
        ("kube_reaction", kube_reaction),
        ("job_start", job_start),
        ("job_bind", job_bind),
        ("policies", policies),  # The longest by far: about an hour and a half on two cores.
    ):
        print(f"\n== {name}", flush=True)
        codes[name] = measure.main([])
    missed = [name for name, code in codes.items() if code]
    print("\nall targets met" if not missed else f"\ntargets missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
