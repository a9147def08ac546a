import CoreMetrics
import Observability
import Testing

@Suite("What Prometheus reads")
struct PrometheusMetricsTests {
    @Test("A counter without labels is 0 from the start, whether it is described before or after it is made") func zeroFromTheStart() {
        let metrics = PrometheusMetrics()
        let described = [DocumentedMetric("push_a_total", .counter, "A."), DocumentedMetric("push_b_total", .counter, "B.")]
        metrics.observe("push_b_total", isCounter: true) { 7 }
        metrics.describe(described)
        #expect(metrics.render().contains("\npush_a_total 0\n") && metrics.render().contains("\npush_b_total 7\n"))
        Counter(label: "push_a_total", factory: metrics).increment()
        metrics.describe(described)
        #expect(metrics.render().contains("\npush_a_total 1\n"))
    }

    private enum Lane: String, CaseIterable { case now, soon }

    @Test("A declared metric has its help, its row in the reference and the series that it can have at 0")
    func declares() {
        let metrics = PrometheusMetrics()
        metrics.counter("push_a_total", "A.").increment(by: 2)
        metrics.counters("push_jobs_total", by: "lane", Lane.self, "Jobs.")[.soon]?.increment()
        let requests = metrics.counters("push_requests_total", ["method", "status"], "Requests.")
        metrics.gauge("push_waiting", ["lane"], "Waiting.").observe("now") { 3 }
        metrics.recorder("push_sizes", [1], "Sizes.").record(1)
        #expect(!metrics.render().contains("push_requests_total"))
        requests["GET", "200"].increment()
        metrics.counter("push_a_total", "A.").increment()
        #expect(metrics.documented.map(\.name) == ["push_a_total", "push_jobs_total", "push_requests_total", "push_waiting", "push_sizes"])
        #expect(metrics.documented.map(\.labels) == [[], ["lane"], ["method", "status"], ["lane"], []])
        #expect(metrics.documented.map(\.kind) == [.counter, .counter, .counter, .gauge, .histogram])
        #expect(
            metrics.render() == """
                # HELP push_a_total A.
                # TYPE push_a_total counter
                push_a_total 3
                # HELP push_jobs_total Jobs.
                # TYPE push_jobs_total counter
                push_jobs_total{lane="now"} 0
                push_jobs_total{lane="soon"} 1
                # HELP push_requests_total Requests.
                # TYPE push_requests_total counter
                push_requests_total{method="GET",status="200"} 1
                # HELP push_sizes Sizes.
                # TYPE push_sizes histogram
                push_sizes_bucket{le="1"} 1
                push_sizes_bucket{le="+Inf"} 1
                push_sizes_sum 1
                push_sizes_count 1
                # HELP push_waiting Waiting.
                # TYPE push_waiting gauge
                push_waiting{lane="now"} 3

                """)
    }

    @Test("The page has each metric once, with its help, its type and its series in order")
    func rendersPage() {
        let metrics = PrometheusMetrics()
        metrics.describe([
            DocumentedMetric("push_jobs_total", .counter, ["app", "lane"], "Jobs taken."),
            DocumentedMetric("push_sizes", .histogram, "Sizes."),
            DocumentedMetric("push_send_duration_seconds", .histogram, "From request to answer."),
        ])
        metrics.setBuckets("push_sizes", [10, 1])
        metrics.setBuckets("push_send_duration_seconds", [0.5])
        Counter(label: "push_jobs_total", dimensions: [("lane", "soon"), ("app", "shop")], factory: metrics).increment(by: 2)
        Counter(label: "push_jobs_total", dimensions: [("app", "shop"), ("lane", "now")], factory: metrics).increment()
        Meter(label: "push_streams", factory: metrics).set(1.5)
        Gauge(label: "push_ready", factory: metrics).record(1)
        let sizes = Recorder(label: "push_sizes", dimensions: [("lane", "now")], aggregate: true, factory: metrics)
        for size in [1, 5, 100] { sizes.record(size) }
        Timer(label: "push_send_duration_seconds", factory: metrics).recordNanoseconds(250_000_000)
        #expect(
            metrics.render() == """
                # HELP push_jobs_total Jobs taken.
                # TYPE push_jobs_total counter
                push_jobs_total{app="shop",lane="now"} 1
                push_jobs_total{app="shop",lane="soon"} 2
                # TYPE push_ready gauge
                push_ready 1
                # HELP push_send_duration_seconds From request to answer.
                # TYPE push_send_duration_seconds histogram
                push_send_duration_seconds_bucket{le="0.5"} 1
                push_send_duration_seconds_bucket{le="+Inf"} 1
                push_send_duration_seconds_sum 0.25
                push_send_duration_seconds_count 1
                # HELP push_sizes Sizes.
                # TYPE push_sizes histogram
                push_sizes_bucket{lane="now",le="1"} 1
                push_sizes_bucket{lane="now",le="10"} 2
                push_sizes_bucket{lane="now",le="+Inf"} 3
                push_sizes_sum{lane="now"} 106
                push_sizes_count{lane="now"} 3
                # TYPE push_streams gauge
                push_streams 1.5

                """)
    }

    @Test("Names and values that Prometheus does not take are made such that it does")
    func escapes() {
        let metrics = PrometheusMetrics()
        metrics.describe([DocumentedMetric("http.server.requests", .counter, "A \\ and\na line")])
        Counter(label: "http.server.requests", dimensions: [("http.route", "/a\"b\\c\nd"), ("5xx", "é")], factory: metrics).increment()
        Timer(label: "http.server.duration", factory: metrics).recordSeconds(1)
        let page = metrics.render()
        #expect(page.contains("# HELP http_server_requests_total A \\\\ and\\na line\n"))
        #expect(page.contains("http_server_requests_total{_5xx=\"é\",http_route=\"/a\\\"b\\\\c\\nd\"} 1\n"))
        #expect(page.contains("http_server_duration_seconds_count 1\n"))
    }

    @Test("A metric made again is the same metric, and counts on")
    func countsOn() {
        let metrics = PrometheusMetrics()
        for _ in 0..<3 { Counter(label: "a_total", dimensions: [("b", "c")], factory: metrics).increment() }
        FloatingPointCounter(label: "a_total", dimensions: [("b", "c")], factory: metrics).increment(by: 0.5)
        #expect(metrics.render() == "# TYPE a_total counter\na_total{b=\"c\"} 3.5\n")
    }

    @Test("A counter never falls, a gauge goes both ways, a reset counter begins anew")
    func countsUp() {
        let metrics = PrometheusMetrics()
        let counter = Counter(label: "a_total", factory: metrics)
        counter.increment(by: 5)
        counter.increment(by: -3)
        let meter = Meter(label: "b", factory: metrics)
        meter.increment(by: 2)
        meter.decrement(by: 5)
        #expect(metrics.render() == "# TYPE a_total counter\na_total 5\n# TYPE b gauge\nb -3\n")
        counter.reset()
        #expect(metrics.render().contains("a_total 0\n"))
    }

    @Test("The page holds the records of many threads")
    func countsFromManyThreads() async {
        let metrics = PrometheusMetrics()
        await withDiscardingTaskGroup { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<1000 {
                        Counter(label: "a_total", factory: metrics).increment()
                        Timer(label: "b_seconds", factory: metrics).recordNanoseconds(1)
                        Meter(label: "c", factory: metrics).increment()
                    }
                }
            }
        }
        let page = metrics.render()
        for line in ["a_total 8000", "b_seconds_count 8000", "b_seconds_bucket{le=\"0.0005\"} 8000", "c 8000"] {
            #expect(page.contains(line + "\n"))
        }
    }

    @Test("One name for two kinds of metric still makes a valid page")
    func separatesKinds() {
        let metrics = PrometheusMetrics()
        Meter(label: "a", factory: metrics).set(1)
        Timer(label: "a_seconds", factory: metrics).recordSeconds(1)
        Recorder(label: "a", aggregate: true, factory: metrics).record(1)
        let types = metrics.render().split(separator: "\n").filter { $0.hasPrefix("# TYPE") }
        #expect(types == ["# TYPE a gauge", "# TYPE a_histogram histogram", "# TYPE a_seconds histogram"])
    }

    @Test("A dimension that is not from a closed set cannot fill the memory")
    func boundsSeries() {
        let metrics = PrometheusMetrics()
        for index in 0..<(PrometheusMetrics.maximumSeries + 10) {
            Counter(label: "a_total", dimensions: [("id", "\(index)")], factory: metrics).increment()
        }
        let lines = metrics.render().split(separator: "\n")
        #expect(lines.count == PrometheusMetrics.maximumSeries + 2)
        #expect(lines.contains("a_total{overflow=\"true\"} 10"))
    }

    @Test("A metric that is destroyed is gone, and its like stays")
    func destroys() {
        let metrics = PrometheusMetrics()
        let gone = Counter(label: "a_total", dimensions: [("b", "1")], factory: metrics)
        Counter(label: "a_total", dimensions: [("b", "2")], factory: metrics).increment()
        gone.destroy()
        #expect(metrics.render() == "# TYPE a_total counter\na_total{b=\"2\"} 1\n")
    }

    @Test("An observed metric is read when the page is made, and absent without a value")
    func observes() {
        let metrics = PrometheusMetrics()
        metrics.observe("a", dimensions: [("b", "c")]) { 2.5 }
        metrics.observe("d") { nil }
        metrics.observe("e_total", isCounter: true) { .infinity }
        #expect(
            metrics.render() == "# TYPE a gauge\na{b=\"c\"} 2.5\n# TYPE d gauge\n# TYPE e_total counter\ne_total +Inf\n")
    }

    @Test("The process reports its memory, processor time and descriptors")
    func describesTheProcess() throws {
        let metrics = PrometheusMetrics()
        ProcessMetrics.register(in: metrics, service: "test", version: BuildVersion(number: "1.2.3", commit: "abc"))
        let lines = metrics.render().split(separator: "\n")
        #expect(lines.contains("push_build_info{commit=\"abc\",service=\"test\",version=\"1.2.3\"} 1"))
        func value(_ name: String) throws -> Double {
            let line = try #require(lines.first { $0.hasPrefix(name + " ") }, "\(name) is missing")
            return try #require(Double(line.dropFirst(name.count + 1)))
        }
        #expect(try value("process_resident_memory_bytes") > 1_000_000)
        #expect(try value("process_open_fds") >= 3)
        #expect(try value("process_cpu_seconds_total") >= 0)
        #expect(try value("process_start_time_seconds") > 1_700_000_000)
    }
}
