import CoreMetrics
import Logging
import Observability
import Testing
import Tracing

@Suite("Setting up a process", .serialized)
struct BootstrapTests {
    @Test("After it, every metric is on the page and traces are carried; a second call changes nothing")
    func bootstraps() throws {
        let metrics = bootstrapObservability(service: "test", level: .warning)
        Counter(label: "push_bootstrap_test_total").increment()
        #expect(metrics.render().contains("push_bootstrap_test_total 1\n"))
        #expect(metrics.render().contains("service=\"test\""))
        #expect(InstrumentationSystem.instrument is TraceContextInstrument)
        #expect(Logger(label: "x").handler is JSONLogHandler)
        #expect(Logger(label: "x").logLevel == .warning)
        #expect(bootstrapObservability(service: "other", level: .trace) === metrics)
        #expect(Logger(label: "x").logLevel == .warning)
    }
}
