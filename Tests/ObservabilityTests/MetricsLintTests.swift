import Observability
import TestSupport
import Testing

@Suite("A page of metrics passes Prometheus' rules")
struct MetricsLintTests {
    @Test("The metrics of every process pass") func processes() {
        let metrics = PrometheusMetrics()
        ProcessMetrics.register(in: metrics, service: "test")
        #expect(MetricsLint.faults(of: metrics.render()) == [])
        #expect(MetricsLint.names(in: metrics.render()).count == 5)
    }

    @Test(
        "Each rule can be broken",
        arguments: [
            ("# TYPE a gauge\na 1\n", "a: no help"), ("# HELP a A.\na 1\n", "a: no type"),
            ("# HELP a \n# TYPE a gauge\na 1\n", "a: no help"),
            ("# HELP a A.\n# TYPE a counter\na 1\n", "a: a counter without _total"),
            ("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n", "a_total: _total, and no counter"),
            ("# HELP a_count A.\n# TYPE a_count gauge\na_count 1\n", "a_count: _count, and no histogram"),
            ("# HELP a A.\n# TYPE a gauge\na{le=\"1\"} 1\n", "a: the label le, and no histogram"),
            ("# HELP a_gauge A.\n# TYPE a_gauge gauge\na_gauge 1\n", "a_gauge: its type in its name"),
            ("# HELP a:b A.\n# TYPE a:b gauge\na:b 1\n", "a:b: a colon, which is for recording rules"),
            ("# HELP a A.\n# TYPE a gauge\na{userName=\"x\"} 1\n", "a: userName is in camel case"),
            ("# HELP a_ms A.\n# TYPE a_ms gauge\na_ms 1\n", "a_ms: the unit ms is not written out"),
            (
                "# HELP a_milliseconds A.\n# TYPE a_milliseconds gauge\na_milliseconds 1\n",
                "a_milliseconds: milliseconds instead of seconds"
            ),
            ("# HELP a_days A.\n# TYPE a_days gauge\na_days 1\n", "a_days: days instead of seconds"),
            ("# HELP a A.\n# HELP a A.\n# TYPE a gauge\na 1\n", "a: HELP twice"),
        ])
    func rules(page: String, fault: String) {
        #expect(MetricsLint.faults(of: page) == [fault])
    }

    @Test("A histogram's parts are its own, and a label may hold anything") func histograms() {
        let page = """
            # HELP a_seconds A.
            # TYPE a_seconds histogram
            a_seconds_bucket{le="1",path="a{b=\\"c,D=\\""} 1
            a_seconds_bucket{le="+Inf",path="x"} 1
            a_seconds_sum 0.5
            a_seconds_count 1

            """
        #expect(MetricsLint.faults(of: page) == [])
        #expect(MetricsLint.names(in: page) == ["a_seconds"])
    }
}
