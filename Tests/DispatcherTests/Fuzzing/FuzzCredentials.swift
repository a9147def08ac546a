import Foundation

@testable import Dispatcher

/// The credentials file, in a folder without any of the files that it may name.
enum FuzzCredentials {
    private static let folder: URL? = {
        let folder = FileManager.default.temporaryDirectory.appending(path: "credentials-fuzz-\(UUID().uuidString)")
        do { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) } catch { return nil }
        return folder
    }()

    static func run(_ bytes: [UInt8]) {
        // An operator may name any file of the machine, but this target must not read them.
        guard let file = folder?.appending(path: "credentials.json"), !bytes.contains(UInt8(ascii: "/")) else { return }
        do {
            try Data(bytes).write(to: file)
            let read = try CredentialsFile(path: file.path())
            precondition(read.entries.isEmpty, "no entry is whole without its key")
        } catch let error as CredentialsError {
            precondition(!error.description.isEmpty, "every error has a description")
        } catch {
            preconditionFailure("the folder for the fuzzer's file cannot be written: \(error)")
        }
    }
}
