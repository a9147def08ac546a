"""Simulates how the number of dispatchers follows deploy/monitoring/rules/scaling.yml, and checks that it does what it shall.

A small model: jobs arrive in one lane, dispatchers take them at the rate of their processor, with a limit of requests under way, and APNs
answers after a time. Every 15 s Prometheus scrapes and evaluates the expressions of the rule file. 7 s later the HorizontalPodAutoscaler,
which KEDA makes from the ScaledObject, asks the ScaledObject's query, and computes the number of dispatchers as Kubernetes documents it.
check-kubernetes.sh runs this.

    scaling_simulation.py --rules FILE --scaled-objects FILE [--table FILE] [--promtool FILE]
"""

import argparse
import collections
import dataclasses
import math
import sys

import yaml

from rule_expressions import Parser, Series

SCRAPE = SYNC = 15        # seconds: Prometheus' scrape, and --horizontal-pod-autoscaler-sync-period
TOLERANCE = 0.1           # --horizontal-pod-autoscaler-tolerance
POD_START = 20            # seconds from the decision to the first job: image there, control stream short
LONGEST_SLACK = 86_400.0
LANES = ("now", "soon", "bulk")


@dataclasses.dataclass
class APNs:
    """Answers after `seconds`, or later if more than `capacity` requests a second come. `silent` answers nothing."""
    seconds: float = 0.08
    capacity: float = math.inf
    is_silent: bool = False


@dataclasses.dataclass
class Scenario:
    name: str
    lane: str
    minutes: int
    arrivals: object                # a function of the second: jobs in that second
    rate: float                     # jobs that the processor of one dispatcher carries in a second
    in_flight: float                # requests that one dispatcher may have under way
    check: object                   # a function of the run: a list of faults
    apns: object = lambda second: APNs()
    is_key_broken: bool = False
    lifetime: float = LONGEST_SLACK
    span: tuple = (0, math.inf)     # while the burst, the campaign or the trouble lasts
    is_set_to_0: bool = False       # at the beginning of the span the Deployment is set to 0 replicas


class Autoscaler:
    """The HorizontalPodAutoscaler for one metric with a target of type Value."""

    def __init__(self, scaled_object):
        self.least, self.most = scaled_object["minReplicaCount"], scaled_object["maxReplicaCount"]
        behaviour = scaled_object["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        self.up, self.down = behaviour["scaleUp"], behaviour["scaleDown"]
        self.target = float(scaled_object["triggers"][0]["metadata"]["threshold"])
        self.recommendations, self.changes = [], []

    def desired(self, value, replicas, ready):
        ratio = value / self.target
        return replicas if abs(1 - ratio) <= TOLERANCE else math.ceil(ratio * ready)

    def sync(self, second, value, replicas, ready):
        wanted = max(self.least, min(self.most, self.desired(value, replicas, ready)))
        wanted = self.stabilized(second, wanted, replicas)
        if wanted > replicas:
            wanted = min(wanted, self.limit(second, replicas, self.up, 1))
        elif wanted < replicas:
            wanted = max(wanted, self.limit(second, replicas, self.down, -1))
        if wanted != replicas:
            self.changes.append((second, wanted - replicas))
        return wanted

    def stabilized(self, second, wanted, replicas):
        """Up: the smallest recommendation of its window. Down: the largest of its window."""
        self.recommendations.append((second, wanted))

        def window(rules):
            return [number for moment, number in self.recommendations if moment > second - rules["stabilizationWindowSeconds"]] or [wanted]
        return max(min(window(self.up)), min(replicas, max(window(self.down))))

    def limit(self, second, replicas, rules, direction):
        """How far the policies permit to go, from the number at the beginning of each period."""
        bounds = []
        for policy in rules["policies"]:
            done = sum(change for moment, change in self.changes if moment > second - policy["periodSeconds"] and change * direction > 0)
            start = replicas - done
            if policy["type"] == "Pods":
                bounds.append(start + direction * policy["value"])
            else:
                bounds.append(math.ceil(start * (1 + direction * policy["value"] / 100)))
        return max(bounds) if direction > 0 else min(bounds)


class Run:
    def __init__(self, scenario, rules, scaled_object):
        self.scenario, self.rules = scenario, rules
        self.autoscaler = Autoscaler(scaled_object)
        self.polling = scaled_object["pollingInterval"]
        self.query_text = scaled_object["triggers"][0]["metadata"]["query"]
        self.query = Parser(self.query_text).parse()
        self.replicas, self.ready = self.autoscaler.least, self.autoscaler.least
        self.starting = []              # the seconds at which further dispatchers are ready
        self.queue = collections.deque()    # [second of arrival, jobs, tries before]
        self.delayed = []                   # (second of its return, jobs, tries before)
        self.under_way, self.answered, self.answer_seconds, self.counted = 0.0, 0.0, 0.0, 0.0
        self.served, self.shared_out = {}, 0.0     # answers that each dispatcher has counted; how many are shared out
        self.series = Series()
        self.log = []                   # (second, replicas, wait, pressure)

    def step(self, second):
        if self.scenario.is_set_to_0 and second == self.scenario.span[0]:
            self.replicas, self.ready, self.starting = 0, 0, []
        self.ready += sum(moment <= second for moment in self.starting)
        self.starting = [moment for moment in self.starting if moment > second]
        arrived = self.scenario.arrivals(second)
        if arrived:
            self.queue.append([second, arrived, 0])
        self.queue.extend([second, jobs, tries] for moment, jobs, tries in self.delayed if moment == second)
        self.delayed = [each for each in self.delayed if each[0] > second]
        self.work(second)
        if second % SCRAPE == 0:
            self.scrape(second)
            self.evaluate(second)
        if second % SYNC == 7:
            self.scale(second)
        elif second % self.polling == 3 and self.replicas == 0 and self.pressure(second) > 0:
            self.resize(second, self.autoscaler.least)      # from nothing KEDA itself scales, not the autoscaler
        self.log.append((second, self.replicas, self.wait(second), self.pressure(second)))

    def work(self, second):
        scenario, apns, limit = self.scenario, self.scenario.apns(second), self.ready * self.scenario.in_flight
        waiting = sum(jobs for _, jobs, _ in self.queue)
        if scenario.is_key_broken:
            # A paused pool: the dispatcher puts the jobs into delayed queues, for 2 minutes and later for 10.
            for tries, jobs in self.take(min(waiting, self.ready * scenario.rate)):
                self.delayed.append((second + (600 if tries else 120), jobs, tries + 1))
            self.under_way = self.answered = 0.0
            return
        self.answer_seconds = max(apns.seconds, limit / apns.capacity)
        if apns.is_silent:
            self.answered = 0.0
            taken = min(waiting, max(0.0, limit - self.under_way))
            self.under_way += taken
            self.take(taken)
            return
        possible = min(self.ready * scenario.rate, limit / self.answer_seconds if limit else 0.0, apns.capacity)
        self.answered = min(waiting + self.under_way / max(1.0, self.answer_seconds), possible)
        self.take(min(waiting, self.answered))
        self.under_way = min(limit, self.answered * self.answer_seconds)
        self.counted += self.answered

    def take(self, jobs):
        taken = []
        while jobs > 1e-9 and self.queue:
            part = min(jobs, self.queue[0][1])
            self.queue[0][1] -= part
            jobs -= part
            taken.append((self.queue[0][2], part))
            if self.queue[0][1] <= 1e-9:
                self.queue.popleft()
        return taken

    def oldest(self):
        return next((arrival for arrival, _, tries in self.queue if tries == 0), None)

    def wait(self, second):
        oldest = self.oldest()
        waited = 0.0 if oldest is None else float(second - oldest)
        return waited + (self.answer_seconds if self.under_way else 0.0)

    def slack(self, second):
        oldest = self.oldest()
        return LONGEST_SLACK if oldest is None else max(0.0, min(LONGEST_SLACK, oldest + self.scenario.lifetime - second))

    def scrape(self, second):
        add = self.series.add
        for lane in LANES:
            is_mine = lane == self.scenario.lane
            add(second, "push_token_service_lane_wait_seconds", {"lane": lane}, self.wait(second) if is_mine else 0.0)
            add(second, "push_token_service_lane_slack_seconds", {"lane": lane}, self.slack(second) if is_mine else LONGEST_SLACK)
        # A starting dispatcher is scraped too: it does not know all fences yet.
        running = self.ready + len(self.starting)
        state = "paused" if self.scenario.is_key_broken else "ready"
        for number in range(self.autoscaler.most):
            instance = {"instance": f"dispatcher-{number}"}
            if number >= running:
                if self.served.pop(number, None) is not None:
                    for name, labels in self.dispatcher_series(number):
                        add(second, name, labels, None)
                continue
            share = 1 / self.ready if number < self.ready else 0.0
            self.served[number] = self.served.get(number, 0.0) + (self.counted - self.shared_out) * share
            add(second, "push_dispatcher_apns_open_streams", instance, round(self.under_way * share, 3))
            add(second, "push_dispatcher_apns_answer_duration_seconds_count", instance, round(self.served[number], 3))
            add(second, "push_dispatcher_control_current", instance, 1.0 if number < self.ready else 0.0)
            add(second, "push_dispatcher_outcomes_refused", instance, 0.0)
            for each in ("connecting", "ready", "paused", "unavailable"):
                is_in = each == (state if number < self.ready else "connecting")
                add(second, "push_dispatcher_apns_pool_state", instance | {"state": each}, 1.0 if is_in else 0.0)
        self.shared_out = self.counted

    @staticmethod
    def dispatcher_series(number):
        instance = {"instance": f"dispatcher-{number}"}
        for name in ("apns_open_streams", "apns_answer_duration_seconds_count", "control_current", "outcomes_refused"):
            yield f"push_dispatcher_{name}", instance
        for state in ("connecting", "ready", "paused", "unavailable"):
            yield "push_dispatcher_apns_pool_state", instance | {"state": state}

    def evaluate(self, second):
        for name, expression in self.rules:
            for labels, value in expression(self.series, second).items():
                self.series.add(second, name, dict(labels), value)

    def pressure(self, second):
        (value,) = self.query(self.series, second).values()
        return value

    def scale(self, second):
        if self.replicas:               # with none the autoscaler does nothing
            self.resize(second, self.autoscaler.sync(second, self.pressure(second), self.replicas, self.ready))

    def resize(self, second, replicas):
        while self.replicas < replicas:
            self.replicas += 1
            self.starting.append(second + POD_START)
        while self.replicas > replicas:
            self.replicas -= 1
            if self.starting:
                self.starting.pop()
            else:
                self.ready -= 1

    def whole(self):
        for second in range(self.scenario.minutes * 60):
            self.step(second)
        return self

    # --- what the checks ask -------------------------------------------------------------------------------------------

    def most(self, start=0, end=math.inf):
        return max(replicas for second, replicas, _, _ in self.log if start <= second < end)

    def fewest(self, start=0, end=math.inf):
        return min(replicas for second, replicas, _, _ in self.log if start <= second < end)

    def longest_wait(self, start=0, end=math.inf):
        return max(wait for second, _, wait, _ in self.log if start <= second < end)

    def first(self, replicas):
        return next((second for second, number, _, _ in self.log if number >= replicas), math.inf)

    def empty_after(self, start):
        return next((second for second, _, wait, _ in self.log if second > start and wait < 1.5), math.inf)


def expect(*claims):
    return [text for is_true, text in claims if not is_true]


MINUTE = 60
SLOW = (10 * MINUTE, 20 * MINUTE)
CAMPAIGN = (300, 452)           # 60 million, as fast as fan-outs publish


def within(second, span):
    return span[0] <= second < span[1]


def scenarios(objects):
    now, bulk = objects["dispatcher-now"], objects["dispatcher-bulk"]
    least, most = now["minReplicaCount"], now["maxReplicaCount"]
    # The figures of one dispatcher: Tests/Benchmarks/README.md (jobs of 1 and of 100), PREFETCH_NOW and BULK_DELIVERIES for one app.
    urgent = {"lane": "now", "rate": 40_071, "in_flight": 500}
    campaign = {"lane": "bulk", "rate": 91_751, "in_flight": 10_000}
    return [
        Scenario(
            "a steady load that the fewest carry", minutes=60, arrivals=lambda second: 8_000, **urgent,
            check=lambda run: expect(
                (run.most() == least, f"{least} dispatchers carry the load, yet there were {run.most()}"),
                (run.longest_wait() < 5, "jobs waited"))),
        Scenario(
            "a steady load that needs three", minutes=90, arrivals=lambda second: 14_000, **urgent,
            check=lambda run: expect(
                (run.most() <= 4, f"three carry the load, yet there were {run.most()}"),
                (run.longest_wait(15 * MINUTE) < 75, f"jobs waited for {run.longest_wait(15 * MINUTE):.0f} s long after the start"))),
        Scenario(
            "a short burst: 10 s", minutes=20, span=(300, 310),
            arrivals=lambda second: 20_000 if within(second, (300, 310)) else 4_000, **urgent,
            check=lambda run: expect(
                (run.most() == least, f"a burst of seconds is over before a dispatcher starts, yet there were {run.most()}"))),
        Scenario(
            "a campaign to 60 million devices", minutes=60, span=CAMPAIGN,
            arrivals=lambda second: 395_000 if within(second, CAMPAIGN) else 0, **campaign,
            check=lambda run: expect(
                (run.first(2) < 300 + 4 * MINUTE, "no second dispatcher within four minutes"),
                (run.most() <= bulk["maxReplicaCount"], "more than maxReplicaCount"),
                (run.empty_after(452) < 300 + 8 * MINUTE, f"the campaign took {run.empty_after(452) - 300} s; one dispatcher takes 654 s"),
                (run.log[-1][1] == bulk["minReplicaCount"], "the further dispatchers stay for ever"))),
        Scenario(
            "the same, each expires after two minutes", minutes=60, lifetime=120, span=CAMPAIGN,
            arrivals=lambda second: 395_000 if within(second, CAMPAIGN) else 0, **campaign,
            check=lambda run: expect((run.first(2) < 300 + 2.5 * MINUTE, "the deadline made nothing faster"))),
        Scenario(
            "APNs answers after 300 ms", minutes=40, span=SLOW, arrivals=lambda second: 6_000,
            apns=lambda second: APNs(0.3) if within(second, SLOW) else APNs(), **urgent,
            check=lambda run: expect(
                (run.most(*SLOW) >= 4, "more dispatchers would have more requests under way, yet none came"),
                (run.longest_wait(SLOW[1] - 60, SLOW[1]) < 5, "jobs still wait at the end of the ten minutes"))),
        Scenario(
            "APNs answers after 3 s", minutes=40, span=SLOW, arrivals=lambda second: 6_000,
            apns=lambda second: APNs(3.0, 400) if within(second, SLOW) else APNs(), **urgent,
            check=lambda run: expect(
                (run.most(*SLOW) == least, f"more dispatchers help nothing, yet there were {run.most(*SLOW)}"),
                (run.fewest(*SLOW) == least, "fewer than the least"),
                (run.empty_after(SLOW[1]) < 36 * MINUTE, "after it the jobs that wait are not worked off"))),
        Scenario(
            "APNs takes 3,000 a second, all together", minutes=40, span=SLOW, arrivals=lambda second: 6_000,
            apns=lambda second: APNs(0.08, 3_000) if within(second, SLOW) else APNs(), **urgent,
            check=lambda run: expect(
                (run.most(*SLOW) <= 4, f"more dispatchers help nothing, yet there were {run.most(*SLOW)}"))),
        Scenario(
            "APNs is silent", minutes=40, span=SLOW, arrivals=lambda second: 6_000,
            apns=lambda second: APNs(is_silent=True) if within(second, SLOW) else APNs(), **urgent,
            check=lambda run: expect(
                (run.most(*SLOW) == least, f"more dispatchers help nothing, yet there were {run.most(*SLOW)}"))),
        Scenario(
            "a broken key", minutes=30, arrivals=lambda second: 6_000, is_key_broken=True, **urgent,
            check=lambda run: expect((run.most() == least, f"more dispatchers help nothing, yet there were {run.most()}"))),
        Scenario(
            "no dispatcher: the Deployment is set to 0", minutes=30, arrivals=lambda second: 6_000, is_set_to_0=True,
            span=(300, 330), **urgent,
            check=lambda run: expect(
                (run.fewest(300) == 0, "the model did not remove the dispatchers"),
                (run.fewest(300 + MINUTE) >= least, "no dispatcher was started within a minute"),
                (run.most() <= most, "more than maxReplicaCount"),
                (run.empty_after(330) < 10 * MINUTE, "what waited is not worked off"))),
    ]


def summary(run):
    """A row of the guide's table."""
    start, end = run.scenario.span
    numbers = [replicas for _, replicas, _, _ in run.log]
    changes = sum(before != after for before, after in zip(numbers, numbers[1:]))
    during = f"{run.fewest(start, end)} to {run.most(start, end)}"
    after = "" if end == math.inf else f"{run.fewest(end)} to {run.most(end)}"
    return [run.scenario.name, run.scenario.lane, during, after, str(changes), f"{run.longest_wait():.0f} s"]


HEADS = ["scenario", "lane", "dispatchers while it lasts", "after it", "changes", "longest wait"]


def table(rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [HEADS, ["---"] * len(HEADS), *rows]) + "\n"


def promtool_cases(runs, rules_file):
    """The same series for promtool, which must compute the same pressure each minute."""
    tests = []
    for run in runs:
        moments, inputs = range(0, run.scenario.minutes * 60, SCRAPE), []
        for (name, labels), samples in run.series.samples.items():
            if name.startswith("push:"):
                continue
            shown = {moment: "stale" if value is None else repr(float(value)) for moment, value in samples}
            values = " ".join(shown.get(moment, "_") for moment in moments)
            text = ",".join(f'{key}="{value}"' for key, value in sorted(labels))
            inputs.append({"series": f"{name}{{{text}}}", "values": values})
        expected = []
        for moment in range(0, run.scenario.minutes * 60, MINUTE):
            samples = {}
            for lane in LANES:
                values = dict(run.series.samples[("push:lane_pressure", frozenset({("lane", lane)}))])
                samples[lane] = values[moment]
            expected.append({
                "expr": "push:lane_pressure", "eval_time": f"{moment}s",
                "exp_samples": [{"labels": f'push:lane_pressure{{lane="{lane}"}}', "value": value} for lane, value in samples.items()]})
            expected.append({
                "expr": run.query_text, "eval_time": f"{moment}s", "exp_samples": [{"labels": "{}", "value": run.pressure(moment)}]})
        tests.append({"name": run.scenario.name, "interval": f"{SCRAPE}s", "input_series": inputs, "promql_expr_test": expected})
    cases = {"rule_files": [rules_file], "evaluation_interval": f"{SCRAPE}s", "tests": tests}
    return yaml.safe_dump(cases, sort_keys=False, width=1_000_000)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rules", required=True)
    arguments.add_argument("--scaled-objects", required=True, help="rendered manifests that hold the ScaledObjects")
    arguments.add_argument("--table", help="write the guide's table here")
    arguments.add_argument("--promtool", help="write the runs as cases for promtool here")
    options = arguments.parse_args()
    with open(options.rules, encoding="utf-8") as file:
        groups = yaml.safe_load(file)["groups"]
    rules = [(rule["record"], Parser(rule["expr"]).parse()) for group in groups for rule in group["rules"]]
    with open(options.scaled_objects, encoding="utf-8") as file:
        objects = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(file) if each["kind"] == "ScaledObject"}
    faults, runs = [], []
    for scenario in scenarios(objects):
        name = "dispatcher-bulk" if scenario.lane == "bulk" else "dispatcher-now"
        run = Run(scenario, rules, objects[name]).whole()
        runs.append(run)
        faults += [f"{scenario.name}: {fault}" for fault in scenario.check(run)]
    rows = table([summary(run) for run in runs])
    print(rows, end="")
    for path, text in ((options.table, rows), (options.promtool, options.promtool and promtool_cases(runs, options.rules))):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for fault in faults:
        print(f"scaling_simulation.py: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
