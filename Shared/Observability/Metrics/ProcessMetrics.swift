import FoundationEssentials

/// Linux' figures about this process, under the names that Prometheus' own clients use.
package enum ProcessMetrics {
    package static let documented: [DocumentedMetric] = [
        DocumentedMetric("process_start_time_seconds", .gauge, "When the process started, UNIX seconds."),
        DocumentedMetric("process_resident_memory_bytes", .gauge, "Memory that is in RAM, in bytes."),
        DocumentedMetric("process_cpu_seconds_total", .counter, "Processor time used, user and system, in seconds."),
        DocumentedMetric("process_open_fds", .gauge, "Open file descriptors."),
        DocumentedMetric("push_build_info", .gauge, ["service", "version", "commit"], "Always 1; the labels say what runs."),
    ]

    /// Adds the process's metrics and `push_build_info` to the page.
    package static func register(in metrics: PrometheusMetrics, service: String, version: BuildVersion = .current) {
        let started = Date().timeIntervalSince1970
        metrics.describe(documented)
        metrics.observe("process_start_time_seconds") { started }
        metrics.observe("process_resident_memory_bytes") { residentBytes() }
        metrics.observe("process_cpu_seconds_total", isCounter: true) { cpuSeconds() }
        metrics.observe("process_open_fds") { openDescriptors() }
        metrics.observe(
            "push_build_info", dimensions: [("service", service), ("version", version.number), ("commit", version.commit)]
        ) { 1 }
    }

    /// proc(5), `/proc/self/status`: `VmRSS: 1234 kB`.
    static func residentBytes() -> Double? {
        guard let line = text("/proc/self/status")?.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") }) else { return nil }
        return line.split(separator: " ").dropFirst().first.flatMap { Double($0.filter(\.isNumber)) }.map { $0 * 1024 }
    }

    /// proc(5), `/proc/self/stat`: fields 14 and 15, in ticks of 1/100 s. The name in field 2 may hold blanks, hence counting from its end.
    static func cpuSeconds() -> Double? {
        guard let stat = text("/proc/self/stat"), let afterName = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[afterName...].split(separator: " ")
        guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else { return nil }
        return (user + system) / 100
    }

    static func openDescriptors() -> Double? {
        do {
            // The list itself was read through one more descriptor.
            return Double(try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count - 1)
        } catch {
            return nil
        }
    }

    private static func text(_ path: String) -> String? {
        do {
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            return nil
        }
    }
}
