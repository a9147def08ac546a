import FoundationEssentials
import SystemIO
import Testing

@Suite("A file that is read whole")
final class WholeFileTests {
    private let folder: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "whole-file-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch { Issue.record(error) }
    }

    private func make(_ count: Int, mode: Int = 0o600) throws -> String {
        let path = "\(folder)/file"
        try Data(repeating: 0x61, count: count).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    @Test("It has as many bytes as are allowed, or one fewer, and no more", arguments: [0, 1, 65_535, 65_536, 200_000])
    func sizes(count: Int) throws {
        let path = try make(count)
        #expect(try WholeFile(path: path, maximumBytes: count).bytes == [UInt8](repeating: 0x61, count: count))
        #expect(try WholeFile(path: path, maximumBytes: count + 1).bytes.count == count)
        guard count > 0 else { return }
        let error = #expect(throws: WholeFile.Fault.self) { try WholeFile(path: path, maximumBytes: count - 1) }
        #expect(error?.description == "it has more than \(count - 1) bytes")
    }

    @Test("An error says what stands at the path") func faults() throws {
        func fault(_ path: String) -> String? {
            let read = #expect(throws: WholeFile.Fault.self) { try WholeFile(path: path, maximumBytes: 10) }
            let checked = #expect(throws: WholeFile.Fault.self) { try WholeFile.check(path) }
            #expect(read == checked)
            return read?.description
        }
        #expect(fault("\(folder)/none") == "there is no such file")
        #expect(fault(folder) == "it is a folder")
        let home = "there is no such file (a ~ stands for no folder here: write the whole path)"
        #expect(fault("~/key.p8") == home)
        #expect(fault("\(folder)/~/key.p8") == home)
        let path = try make(1)
        #expect(fault("\(path)/x") == "it cannot be read: Not a directory")
    }

    @Test(
        "The mode shows only if others than the owner may use the file",
        arguments: [(0o600, nil), (0o400, nil), (0o604, 0o604), (0o620, 0o620), (0o601, 0o601), (0o666, 0o666)] as [(Int, UInt32?)])
    func modes(mode: Int, open: UInt32?) throws {
        let path = try make(1, mode: mode)
        #expect(try WholeFile(path: path, maximumBytes: 1).openMode == open)
        #expect(try WholeFile.check(path) == open)
    }
}
