import Foundation
import Observability
import TestServers
import TestSupport
import Testing

/// Runs shell commands, in which `pushctl` is the program, in a folder of their own.
func shell(_ commands: String, _ environment: [String: String] = [:]) async throws -> (status: Int32, output: String) {
    let programs = try TestServers.programs()
    let folder = NSTemporaryDirectory() + "/push-shell-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let script = "cd '\(folder)' && pushctl() { '\(programs)/pushctl' \"$@\"; }\n\(commands)"
    let shell = try ChildProcess(
        "/bin/bash", ["-c", script], environment.merging(["PATH": "/usr/bin:/bin"]) { own, _ in own }, log: "\(folder)/output")
    let status = try await shell.exit()
    return (status, try String(contentsOfFile: "\(folder)/output", encoding: .utf8))
}

@Suite("pushctl as a process, without a server", .timeLimit(.minutes(5)))
struct ProcessTests {
    @Test("pushctl reports a full disk and does not end with success") func fullDisk() async throws {
        let (status, output) = try await shell("pushctl keys generate > /dev/full")
        #expect(status == 1 && output == "Error: standard output cannot be written: No space left on device\n")
    }

    @Test("A reader that has gone ends the command without a word") func lostReader() async throws {
        // Descriptor 4 is the writing end of a pipe whose only reader was closed.
        let (status, output) = try await shell("mkfifo p && exec 3<>p 4>p 3<&- && pushctl keys generate >&4")
        #expect(status == 141 && output.isEmpty, "\(output)")
    }

    @Test("The version is the build's") func version() async throws {
        let (status, output) = try await shell("pushctl --version")
        #expect(status == 0 && output == "\(BuildVersion.current)\n")
    }

    @Test(
        "pushctl names an invalid address and the expected form before it sends anything",
        arguments: [
            ("localhost:8080", "but is \"localhost:8080\": write http://localhost:8080"),
            ("push.example.com", "but is \"push.example.com\": write http://push.example.com"),
            ("amqp://localhost", "but is \"amqp://localhost\""), ("http://", "but is \"http://\""),
            ("http://127.0.0.1:65536", "has a port that is not from 1 to 65535"),
            ("http://[::1]:0", "has a port that is not from 1 to 65535"),
            ("http://u:p@localhost:70000", "without a user and a password"),
            ("http://u:p@localhost", "without a user and a password"), ("http://localhost/?a=b", "without a query"),
        ])
    func wrongAddress(_ address: String, _ words: String) async throws {
        let (status, output) = try await shell("pushctl apps list", ["PUSH_URL": address, "PUSH_KEY": "k"])
        #expect(
            status == 1 && output.hasPrefix("Error: PUSH_URL must be an address such as http://") && output.contains(words), "\(output)")
        #expect(!output.contains("u:p@"))
        let (sameStatus, same) = try await shell("pushctl apps list --url '\(address)'", ["PUSH_KEY": "k"])
        #expect(sameStatus == 1 && same.hasPrefix("Error: --url must be an address such as http://") && same.contains(words), "\(same)")
    }

    @Test("A key file that others may read is warned about, and one that is none is named") func keyFile() async throws {
        let call = "pushctl apps list --url http://127.0.0.1:\(FreePorts.closed) --key-file"
        // Beside each other, because each of them asks the service that is not there for seconds.
        async let ofOpen = shell("printf k > key; chmod 644 key; \(call) key")
        async let ofClosed = shell("printf k > key; chmod 600 key; \(call) key")
        async let ofMarked = shell(#"printf '\xef\xbb\xbfk\r\n' > key; chmod 600 key; \#(call) key"#)
        let (_, open) = try await ofOpen
        #expect(open.hasPrefix("warning: the key file key can be read by others (mode 644)\n"), "\(open)")
        let (_, closed) = try await ofClosed
        #expect(!closed.contains("warning"), "\(closed)")
        let (status, folder) = try await shell("\(call) .")
        #expect(status == 1 && folder == "Error: the key file . cannot be used: it is a folder\n", "\(folder)")
        let (_, marked) = try await ofMarked
        #expect(marked.contains("no answer"), "\(marked)")
    }

    @Test("A service that is not there is named, in words") func nobodyListens() async throws {
        let url = "http://127.0.0.1:\(FreePorts.closed)"
        let (status, output) = try await shell("pushctl apps list", ["PUSH_URL": url + "//", "PUSH_KEY": "k"])
        #expect(status == 1 && output.contains("GET \(url)/v1/admin/apps: no answer") && output.contains("Connection refused"), "\(output)")
    }

    @Test("A misspelt setting is pointed at where the key is missed") func misspeltKey() async throws {
        let (status, output) = try await shell("pushctl apps list", ["PUSH_KEYS": "k"])
        #expect(status == 1 && output.contains("PUSH_KEYS is set, did you mean PUSH_KEY?"), "\(output)")
    }

    @Test(
        "A command that does not exist is named, with the one that was meant",
        arguments: [
            ("snd shop", "unknown command snd; did you mean send?"), ("apps lits", "unknown command lits; did you mean list?"),
            ("keys remove", "unknown command remove; it must be one of generate, create, list, rotate, revoke"),
        ])
    func unknownCommand(_ line: String, _ words: String) async throws {
        let (status, output) = try await shell("pushctl \(line)")
        #expect(status == 64 && output.contains(words), "\(output)")
    }

    @Test("A folder is no file to import") func folder() async throws {
        let (status, output) = try await shell(
            "pushctl import shop .", ["PUSH_KEY": "k", "PUSH_URL": "http://127.0.0.1:\(FreePorts.closed)"])
        #expect(status == 1 && output.contains("the file . cannot be read: Is a directory"), "\(output)")
    }
}
