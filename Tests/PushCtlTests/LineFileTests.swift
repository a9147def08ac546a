import Foundation
import SystemIO
import Testing

@testable import PushCtl

@Suite("The target of an export keeps its kind")
struct LineFileTests {
    /// A folder of one test, and its content.
    private final class Folder {
        let path = NSTemporaryDirectory() + "/push-lines-\(UUID().uuidString)"

        init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
        deinit { try? FileManager.default.removeItem(atPath: path) }

        func file(_ name: String) -> String { "\(path)/\(name)" }
        func text(_ name: String) throws -> String { try String(contentsOfFile: file(name), encoding: .utf8) }
        func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }
        func mode(_ name: String) throws -> Int? { try FileManager.default.attributesOfItem(atPath: file(name))[.posixPermissions] as? Int }
        func type(_ name: String) throws -> FileAttributeType? {
            try FileManager.default.attributesOfItem(atPath: file(name))[.type] as? FileAttributeType
        }
    }

    private func write(_ text: String, to path: String, continues: Bool = false) throws {
        let file = try LineFile(replacing: path, continues: continues)
        try file.append(line: Array(text.utf8)[...])
        try file.finish()
    }

    @Test("A file takes its name when it is whole, and belongs to its owner alone") func regular() throws {
        let folder = try Folder()
        try write("first", to: folder.file("f"))
        #expect(try folder.text("f") == "first\n" && folder.mode("f") == 0o600)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: folder.file("f"))
        let file = try LineFile(replacing: folder.file("f"))
        try file.append(line: Array("second".utf8)[...])
        try file.flush()
        #expect(try folder.text("f") == "first\n", "an export that is under way leaves the earlier one")
        try file.finish()
        #expect(try folder.text("f") == "second\n" && folder.mode("f") == 0o600)
        #expect(try folder.names() == ["f"])
    }

    @Test("An export continues the file that an earlier run left") func continued() throws {
        let folder = try Folder()
        let broken = try LineFile(replacing: folder.file("f"))
        try broken.append(line: Array("1".utf8)[...])
        try broken.flush()
        #expect(broken.leftover == folder.file("f.partial"))
        try write("2", to: folder.file("f"), continues: true)
        #expect(try folder.text("f") == "1\n2\n" && folder.names() == ["f"])
        try write("3", to: folder.file("f"), continues: true)
        #expect(try folder.text("f") == "1\n2\n3\n" && folder.names() == ["f"])
    }

    @Test("A link stays a link, and the file behind it is written") func link() throws {
        let folder = try Folder()
        try Data("old and longer than what comes".utf8).write(to: URL(filePath: folder.file("target")))
        try FileManager.default.createSymbolicLink(atPath: folder.file("link"), withDestinationPath: folder.file("target"))
        try write("new", to: folder.file("link"))
        #expect(try folder.type("link") == .typeSymbolicLink && folder.text("target") == "new\n")
        #expect(try folder.names() == ["link", "target"])
    }

    @Test("A pipe stays a pipe, and its reader gets the lines") func pipe() async throws {
        let folder = try Folder()
        let path = folder.file("pipe")
        try #require(mkfifo(path, 0o600) == 0)
        // Opened for both directions, so that neither end waits for the other.
        let reader = try #require(FileHandle(forUpdatingAtPath: path))
        try write("line", to: path)
        // One read: the test holds a writing end too, so that the pipe has no end.
        #expect(reader.availableData == Data("line\n".utf8))
        let (names, kind) = (try folder.names(), try OutputFile.kind(of: path))
        #expect(names == ["pipe"] && kind == .other)
    }

    @Test("A device stays a device, and a full disk is named in the system's words") func device() throws {
        try write("line", to: "/dev/null")
        let error = #expect(throws: CommandFailure.self) { try write("line", to: "/dev/full") }
        #expect(error == CommandFailure("the file /dev/full cannot be written: No space left on device"))
        for path in ["/dev/null", "/dev/full"] {
            #expect(try FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType == .typeCharacterSpecial)
        }
    }

    @Test("A file that cannot be made is named, with the cause") func refused() {
        #expect(throws: CommandFailure("the file /nonexistent/f cannot be written: No such file or directory")) {
            try LineFile(replacing: "/nonexistent/f")
        }
        #expect(throws: CommandFailure("the file /nonexistent/f cannot be written: No such file or directory")) {
            try LineFile(inPlace: "/nonexistent/f")
        }
    }
}
