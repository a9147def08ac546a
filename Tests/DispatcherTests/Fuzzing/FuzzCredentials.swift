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
        // A file anywhere on the machine is the operator's to name, and not this one's to read.
        guard let file = folder?.appending(path: "credentials.json"), !bytes.contains(UInt8(ascii: "/")) else { return }
        do {
            try Data(bytes).write(to: file)
            let read = try CredentialsFile(path: file.path())
            precondition(read.entries.isEmpty, "no entry is whole without its key")
        } catch let error as CredentialsError {
            precondition(!error.description.isEmpty, "everything that is wrong is told in words")
        } catch {
            preconditionFailure("the folder for the fuzzer's file cannot be written: \(error)")
        }
    }
}
