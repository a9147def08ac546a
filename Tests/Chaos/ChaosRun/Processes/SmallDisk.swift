import Foundation

/// A file system of its own in memory, small enough to be filled to the last byte. Only root may mount one.
final class SmallDisk: Sendable {
    let folder: String
    private var ballast: String { "\(folder)/ballast" }

    /// - Parameter list: The file in which `deploy/chaos` finds what a run that was killed has left mounted.
    /// - Returns: nil if it is not permitted, with a message.
    static func mount(at folder: String, mebibytes: Int, list: String) async throws -> SmallDisk? {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        do {
            try await Tool.run("/usr/bin/mount", ["-t", "tmpfs", "-o", "size=\(mebibytes)m,mode=755", "tmpfs", folder])
        } catch {
            say("    no small disk can be mounted here, so none is filled: \(error)")
            return nil
        }
        let known = (try? String(contentsOfFile: list, encoding: .utf8)) ?? ""
        try Data("\(known)\(folder)\n".utf8).write(to: URL(filePath: list))
        return SmallDisk(folder)
    }

    private init(_ folder: String) { self.folder = folder }

    /// Takes all free space. The next call takes space that others free meanwhile.
    func fill() throws {
        if !FileManager.default.fileExists(atPath: ballast) { try Data().write(to: URL(filePath: ballast)) }
        let file = try FileHandle(forWritingTo: URL(filePath: ballast))
        var size = Int(try file.seekToEnd())
        var piece = 64 << 20
        while piece >= 4096 {
            if posix_fallocate(file.fileDescriptor, size, piece) == 0 { size += piece } else { piece /= 2 }
        }
        try file.close()
    }

    func free() throws { try FileManager.default.removeItem(atPath: ballast) }

    /// Unmounts it after its writers have ended.
    func unmount() async {
        do { try await Tool.run("/usr/bin/umount", [folder]) } catch { say("    \(folder) is still mounted: \(error)") }
    }
}
