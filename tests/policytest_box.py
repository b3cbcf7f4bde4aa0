"""Threads, CPUs and intents that tests of policy tests speak of."""

from __future__ import annotations

from tests.policies import BOX, intent

PODS = intent(
    "shop",
    'workload: {match: [{comm: "web*"}], pods: {namespace: shop, matchLabels: {app: web}}}\n'
    "keep: interactive",
)
CLASH = intent("clash", 'workload: {match: [{comm: "stress-ng*"}]}\nkeep: interactive')
SMALL = (
    BOX.replace("name: box", "name: tiny")
    .replace("0-15", "0-3")
    .replace("smt: [0-7, 8-15]", "smt: [0-1, 2-3]")
)
"""As BOX with two cores of two threads each."""

# BOX has the cores {0,8} to {7,15}.  Housekeeping takes the lowest two, the lane the next two,
# and what is demoted is kept out of both; what no rule matches is kept out of the lane only.
LANE = "2-3,10-11"
REST = "4-7,12-15"
SHARED = "0-1,4-9,12-15"

ENGINE = "{comm: engine-7, cgroup: system.slice/a.service}"
LOAD = "{comm: stress-ng-cpu, cgroup: user.slice}"
OTHER = "{comm: bash, cgroup: user.slice}"
