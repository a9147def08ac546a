import Foundation

/// The measured process, as the operating system accounts for it (proc(5)).
package struct ServiceProcess {
    package let id: Int

    package init(id: Int) { self.id = id }

    /// Resident now, MiB.
    package func resident() throws -> Double { try status("VmRSS:") }
    /// The most that was resident since ``forgetPeak()``, MiB.
    package func peak() throws -> Double { try status("VmHWM:") }

    /// Resets VmHWM to the current resident size.
    package func forgetPeak() throws { try Data("5".utf8).write(to: URL(filePath: "/proc/\(id)/clear_refs")) }

    /// User and system time so far, seconds (fields 14 and 15 of stat, in hundredths of a second on Linux).
    package func processorTime() throws -> Double {
        let text = try String(contentsOf: URL(filePath: "/proc/\(id)/stat"), encoding: .utf8)
        // The name in parentheses may hold blanks; the fields after it do not.
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else {
            throw BenchmarkError("there is no process \(id)")
        }
        return (user + system) / 100
    }

    private func status(_ field: String) throws -> Double {
        let text = try String(contentsOf: URL(filePath: "/proc/\(id)/status"), encoding: .utf8)
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(field) }),
            let kibibytes = line.dropFirst(field.count).split(whereSeparator: \.isWhitespace).first.flatMap({ Double($0) })
        else { throw BenchmarkError("there is no process \(id)") }
        return kibibytes / 1024
    }
}
