import ArgumentParser
import FoundationEssentials
import Observability
import PushAPI
import SystemIO

/// The address of the token service, and the key for it.
struct ConnectionOptions: ParsableArguments {
    @Option(help: "The token service's address; default: PUSH_URL, else http://127.0.0.1:8080.")
    var url: String?

    @Option(help: "A file that holds the API key; default: PUSH_KEY_FILE, else the key in PUSH_KEY.")
    var keyFile: String?

    /// - Throws: ``CommandFailure`` when there is no key, its file cannot be read or holds more than one key, or the service refused a call
    ///   or did not answer it.
    func withClient<Result>(_ body: (PushAPI) async throws -> Result) async throws -> Result {
        do { return try await PushAPI.with(baseURL: try address(), key: try key(), body) } catch let error as PushAPIError {
            throw CommandFailure("\(error)")
        }
    }

    private func address() throws -> String {
        if let url { return try ServiceAddress.parse(url, from: "--url") }
        guard let url = environment("PUSH_URL") else { return "http://127.0.0.1:8080" }
        return try ServiceAddress.parse(url, from: "PUSH_URL")
    }

    private func key() throws -> String {
        if let path = keyFile ?? environment("PUSH_KEY_FILE") {
            let file: WholeFile
            do throws(WholeFile.Fault) { file = try WholeFile(path: path, maximumBytes: 65_536) } catch {
                throw CommandFailure("the key file \(path) cannot be used: \(error)")
            }
            if let mode = file.openMode {
                StandardError.write("warning: the key file \(path) can be read by others (mode \(String(mode, radix: 8)))\n")
            }
            return try oneKey(String(decoding: file.bytes.withoutByteOrderMark, as: UTF8.self), "the key file \(path)")
        }
        guard let key = environment("PUSH_KEY") else {
            throw CommandFailure("no API key: give --key-file, or set PUSH_KEY_FILE or PUSH_KEY\(misspelling)")
        }
        return try oneKey(key, "PUSH_KEY")
    }

    /// Refuses text that is no key before the HTTP client does: its error repeats the header, and the key with it.
    private func oneKey(_ text: String, _ place: String) throws -> String {
        let key = text.trimmingPrefixAndSuffix()
        guard !key.isEmpty, key.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw CommandFailure("\(place) must hold one key and nothing else; with --quiet, pushctl keys create prints the key alone")
        }
        return key
    }

    /// `; PUSH_KEYFILE is set, did you mean PUSH_KEY_FILE?`
    private var misspelling: String {
        let names = Set(ProcessInfo.processInfo.environment.keys)
        return nearMisses(of: ["PUSH_KEY", "PUSH_KEY_FILE"], among: names).first.map { "; \($0.found) is set, did you mean \($0.meant)?" }
            ?? ""
    }

    private func environment(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
}

extension String {
    fileprivate func trimmingPrefixAndSuffix() -> String {
        String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}

/// The message for a person when a command failed.
struct CommandFailure: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
