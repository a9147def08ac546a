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

    /// Established connections to each port of this machine's (IPv4): what the servers that listen there have open to their clients.
    static func connectionsByPort() -> [Int: Int] {
        guard let table = try? String(contentsOfFile: "/proc/net/tcp", encoding: .utf8) else { return [:] }
        var found: [Int: Int] = [:]
        for line in table.split(separator: "\n").dropFirst() {
            let fields = line.split(separator: " ", maxSplits: 4)
            guard fields.count > 3, fields[3] == "01", let port = Int(fields[1].drop { $0 != ":" }.dropFirst(), radix: 16) else { continue }
            found[port, default: 0] += 1
        }
        return found
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
