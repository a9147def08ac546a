import Foundation

/// What the operating system says about a process (proc(5)).
struct ProcessFacts {
    let residentBytes: Int64
    let descriptors: Int
    let threads: Int

    /// - Returns: nil where there is no such process any more.
    init?(id: Int32) {
        guard let status = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8),
            let resident = Self.number(after: "VmRSS:", in: status), let threads = Self.number(after: "Threads:", in: status),
            let open = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(id)/fd")
        else { return nil }
        (residentBytes, self.threads, descriptors) = (Int64(resident) * 1024, threads, open.count)
    }

    /// Established connections (IPv4) to a port of the process's machine: what its clients have open.
    static func connections(of id: Int32, to port: Int) -> Int {
        guard let table = try? String(contentsOfFile: "/proc/\(id)/net/tcp", encoding: .utf8) else { return 0 }
        return table.split(separator: "\n").dropFirst().count { line in
            let fields = line.split(separator: " ", maxSplits: 4)
            return fields.count > 3 && fields[3] == "01" && Int(fields[1].drop { $0 != ":" }.dropFirst(), radix: 16) == port
        }
    }

    /// In ticks since the machine started: with the id it names one process for ever.
    static func birth(of id: Int32) -> String? {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8), let end = text.lastIndex(of: ")") else {
            return nil
        }
        let fields = text[text.index(after: end)...].split(separator: " ")
        return fields.count > 19 ? String(fields[19]) : nil
    }

    private static func number(after name: String, in status: String) -> Int? {
        status.split(separator: "\n").first { $0.hasPrefix(name) }
            .flatMap { $0.dropFirst(name.count).split(whereSeparator: \.isWhitespace).first }.flatMap { Int($0) }
    }
}
