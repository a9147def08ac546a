"""Evaluates the part of PromQL that deploy/monitoring/rules/scaling.yml uses, so that the simulation runs the rules themselves.

check-kubernetes.sh gives the simulation's series to promtool too, which must compute the same values. A vector is a dictionary: its keys
are frozen sets of labels without the metric's name, its values are numbers.
"""

import math
import re

TOKEN = re.compile(r"""\s*(?:
    (?P<number>\d+(?:\.\d+)?(?![\w.]))
  | (?P<text>"[^"]*")
  | (?P<word>[A-Za-z_:][\w:]*)
  | (?P<sign>>=|<=|==|!=|=~|!~|[-+*/()<>{},=\[\]])
  | (?P<duration>\d+[smh])
)""", re.X)
SECONDS = {"s": 1, "m": 60, "h": 3600}
# Weakest first.
LEVELS = [("or",), ("and", "unless"), ("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/")]
AGGREGATIONS = {"max": max, "min": min, "sum": sum, "group": lambda values: 1.0}
LOOK_BACK = 300


class Series:
    """Samples of all series by name and labels. None marks the end of a series (its target went)."""

    def __init__(self):
        self.samples = {}

    def add(self, moment, name, labels, value):
        self.samples.setdefault((name, frozenset(labels.items())), []).append((moment, value))

    def select(self, name, tests):
        for (found, labels), samples in self.samples.items():
            if found == name and all(test(dict(labels)) for test in tests):
                yield labels, samples

    def instant(self, name, tests, moment):
        vector = {}
        for labels, samples in self.select(name, tests):
            newest = next((sample for sample in reversed(samples) if sample[0] <= moment), None)
            if newest and newest[1] is not None and newest[0] > moment - LOOK_BACK:
                vector[labels] = newest[1]
        return vector

    def rate(self, name, tests, moment, window):
        vector = {}
        for labels, samples in self.select(name, tests):
            inside = [sample for sample in samples if moment - window < sample[0] <= moment and sample[1] is not None]
            if len(inside) >= 2:
                vector[labels] = extrapolated(inside, moment, window)
        return vector


def extrapolated(samples, moment, window):
    """What Prometheus' rate() makes of a counter's samples: the increase, stretched to the ends of the window."""
    (first, low), (last, high) = samples[0], samples[-1]
    increase = high - low + sum(before for (_, before), (_, after) in zip(samples, samples[1:]) if after < before)
    span, step = last - first, (last - first) / (len(samples) - 1)
    start, end = first - (moment - window), moment - last
    if increase > 0 and low >= 0:
        start = min(start, span * low / increase)
    stretched = span + sum(part if part < step * 1.1 else step / 2 for part in (start, end))
    return increase * stretched / span / window


class Parser:
    """Makes a function of (series, moment) from an expression."""

    def __init__(self, text):
        text = re.sub(r"#.*", "", text).strip()
        self.tokens, position = [], 0
        while position < len(text):
            match = TOKEN.match(text, position)
            if not match:
                raise ValueError(f"cannot read the expression from: {text[position:position + 40]}")
            self.tokens.append(match[0].strip())
            position = match.end()

    def peek(self):
        return self.tokens[0] if self.tokens else None

    def take(self, *wanted):
        if wanted and self.peek() not in wanted:
            raise ValueError(f"expected {' or '.join(wanted)}, found {self.peek()}")
        return self.tokens.pop(0)

    def parse(self):
        result = self.level(0)
        if self.tokens:
            raise ValueError(f"did not expect {self.peek()}")
        return result

    def level(self, depth):
        if depth == len(LEVELS):
            return self.atom()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            sign = self.take()
            is_bool = self.peek() == "bool" and bool(self.take())
            on = self.labels() if self.peek() == "on" and self.take() else None
            left = self.operation(sign, left, self.level(depth + 1), on, is_bool)
        return left

    def labels(self):
        self.take("(")
        names = []
        while self.peek() != ")":
            names.append(self.take())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return names

    def operation(self, sign, left, right, on, is_bool):
        return lambda series, moment: combine(sign, left(series, moment), right(series, moment), on, is_bool)

    def atom(self):
        token = self.take()
        if token == "(":
            inside = self.level(0)
            self.take(")")
            return inside
        if re.fullmatch(r"\d+(\.\d+)?", token):
            return lambda series, moment, value=float(token): value
        if token in AGGREGATIONS:
            return self.aggregation(AGGREGATIONS[token])
        if self.peek() == "(":
            return self.function(token)
        tests = self.tests()
        return lambda series, moment: series.instant(token, tests, moment)

    def aggregation(self, function):
        by = self.labels() if self.peek() == "by" and self.take() else []
        self.take("(")
        inside = self.level(0)
        self.take(")")

        def aggregate(series, moment):
            groups = {}
            for labels, value in inside(series, moment).items():
                groups.setdefault(only(labels, by), []).append(value)
            return {labels: function(values) for labels, values in groups.items()}
        return aggregate

    def function(self, name):
        self.take("(")
        if name == "rate":
            metric, tests = self.take(), self.tests()
            self.take("[")
            window = self.take()
            self.take("]")
            self.take(")")
            seconds = int(window[:-1]) * SECONDS[window[-1]]
            return lambda series, moment: series.rate(metric, tests, moment, seconds)
        arguments = [self.level(0)]
        while self.peek() == ",":
            self.take()
            arguments.append(self.level(0))
        self.take(")")

        def call(series, moment):
            first, *others = [argument(series, moment) for argument in arguments]
            match name:
                case "vector":
                    return {frozenset(): first}
                case "scalar":
                    return next(iter(first.values())) if len(first) == 1 else math.nan
                case "clamp_min":
                    return {labels: max(value, others[0]) for labels, value in first.items()}
                case "clamp_max":
                    return {labels: math.nan if math.isnan(others[0]) else min(value, others[0]) for labels, value in first.items()}
            raise ValueError(f"rule_expressions.py does not know the function {name}; add it")
        return call

    def tests(self):
        if self.peek() != "{":
            return []
        self.take("{")
        found = []
        while self.peek() != "}":
            label, sign, text = self.take(), self.take("=", "!=", "=~", "!~"), self.take()[1:-1]
            found.append(label_test(label, sign, text))
            if self.peek() == ",":
                self.take()
        self.take("}")
        return found


def label_test(label, sign, text):
    def test(labels):
        value = labels.get(label, "")
        is_match = re.fullmatch(text, value) is not None if "~" in sign else value == text
        return is_match != sign.startswith("!")
    return test


def only(labels, names):
    return frozenset((name, value) for name, value in labels if name in names)


def apply(sign, left, right):
    match sign:
        case "+": return left + right
        case "-": return left - right
        case "*": return left * right
        case "/":
            if right != 0:
                return left / right
            return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
        case "==": return left == right
        case "!=": return left != right
        case "<": return left < right
        case ">": return left > right
        case "<=": return left <= right
        case ">=": return left >= right


def combine(sign, left, right, on, is_bool):
    is_comparison = sign in LEVELS[2]
    if isinstance(left, float) and isinstance(right, float):
        return float(apply(sign, left, right))
    if sign in ("or", "and", "unless"):
        key = (lambda labels: only(labels, on)) if on is not None else (lambda labels: labels)
        if sign == "or":
            known = {key(labels) for labels in left}
            return left | {labels: value for labels, value in right.items() if key(labels) not in known}
        other = {key(labels) for labels in right}
        return {labels: value for labels, value in left.items() if (key(labels) in other) == (sign == "and")}
    if isinstance(left, float):
        pairs = [(labels, left, value, value) for labels, value in right.items()]
    elif isinstance(right, float):
        pairs = [(labels, value, right, value) for labels, value in left.items()]
    else:
        key = (lambda labels: only(labels, on)) if on is not None else (lambda labels: labels)
        others = {key(labels): value for labels, value in right.items()}
        pairs = [(labels, value, others[key(labels)], value) for labels, value in left.items() if key(labels) in others]
    if not is_comparison:
        return {labels: apply(sign, one, other) for labels, one, other, _ in pairs}
    if is_bool:
        return {labels: float(apply(sign, one, other)) for labels, one, other, _ in pairs}
    return {labels: kept for labels, one, other, kept in pairs if apply(sign, one, other)}
