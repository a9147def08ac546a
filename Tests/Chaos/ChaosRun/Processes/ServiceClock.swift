import Foundation

/// The clock of one service, as `Tests/Support/ClockShim` shows it to it.
final class ServiceClock: Sendable {
    private let path: String
    private let shim: String

    /// - Parameter path: The file that both sides see.
    init(_ path: String, shim: String) throws {
        (self.path, self.shim) = (path, shim)
        try FileManager.default.createDirectory(
            atPath: URL(filePath: path).deletingLastPathComponent().path, withIntermediateDirectories: true)
        try Data(count: 8).write(to: URL(filePath: path))
    }

    var environment: [String: String] { ["LD_PRELOAD": shim, "PUSH_CLOCK_FILE": path] }

    /// Writes in place and makes no new file, because the service has mapped this one.
    func set(_ seconds: Int64) throws {
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.write(contentsOf: (0..<8).map { UInt8(truncatingIfNeeded: seconds.littleEndian >> ($0 * 8)) })
        try file.close()
    }
}
