import ArgumentParser
import Foundation
import Glibc

/// What the operating system accounts to another process.
enum ProcessUsage {
    /// User and system time of all its threads, also of those that have ended (clock_getcpuclockid(3)).
    static func cpuSeconds(of pid: Int32) throws -> Double {
        var clock = clockid_t()
        var time = timespec()
        guard unsafe clock_getcpuclockid(pid, &clock) == 0, unsafe clock_gettime(clock, &time) == 0 else {
            throw ValidationError("there is no process \(pid)")
        }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// The most that was resident since the last ``resetPeak(of:)``.
    static func peakMebibytes(of pid: Int32) throws -> Double { try status("VmHWM", of: pid) / 1024 }

    static func threads(of pid: Int32) throws -> Double { try status("Threads", of: pid) }

    /// A number of proc(5), status.
    private static func status(_ name: String, of pid: Int32) throws -> Double {
        let status = try String(contentsOf: URL(filePath: "/proc/\(pid)/status"), encoding: .utf8)
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("\(name):") }),
            let number = line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Double($0) })
        else { throw ValidationError("no \(name) in /proc/\(pid)/status") }
        return number
    }

    /// proc(5), clear_refs: 5 sets the peak to what is resident now.
    static func resetPeak(of pid: Int32) throws {
        try Data("5".utf8).write(to: URL(filePath: "/proc/\(pid)/clear_refs"))
    }
}
