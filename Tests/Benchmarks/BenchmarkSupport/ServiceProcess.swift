import Foundation

/// The measured process, as the operating system accounts for it (proc(5)).
package struct ServiceProcess {
    package let id: Int

    package init(id: Int) { self.id = id }

    /// Resident now, MiB.
    package func resident() throws -> Double { try status("VmRSS:") }
    /// The most that was resident since ``forgetPeak()``, MiB.
    package func peak() throws -> Double { try status("VmHWM:") }

    /// Lets VmHWM begin again from what is resident now.
    package func forgetPeak() throws { try Data("5".utf8).write(to: URL(filePath: "/proc/\(id)/clear_refs")) }

    private func status(_ field: String) throws -> Double {
        let text = try String(contentsOf: URL(filePath: "/proc/\(id)/status"), encoding: .utf8)
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(field) }),
            let kibibytes = line.dropFirst(field.count).split(whereSeparator: \.isWhitespace).first.flatMap({ Double($0) })
        else { throw BenchmarkError("there is no process \(id)") }
        return kibibytes / 1024
    }
}
