import Foundation

/// A directory of one test, removed with this object. The tests run the `openssl` program in it to check the module.
final class Scratch {
    let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("openssl-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    func path(_ name: String) -> String { directory.appendingPathComponent(name).path }

    func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: directory.appendingPathComponent(name)) }

    func read(_ name: String) throws -> [UInt8] { try Array(Data(contentsOf: directory.appendingPathComponent(name))) }

    struct Failure: Error { let arguments: String, status: Int32, output: String }

    /// Runs `openssl` with arguments that hold no spaces.
    @discardableResult
    func openssl(_ arguments: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments.split(separator: " ").map(String.init)
        process.currentDirectoryURL = directory
        process.standardInput = FileHandle.nullDevice
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(arguments: arguments, status: process.terminationStatus, output: output)
        }
        return output
    }
}

extension Scratch {
    /// Makes `NAME.pem` and `NAME.key`, a self-signed authority.
    func makeAuthority(_ name: String) throws {
        try openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=\(name) -keyout \(name).key -out \(name).pem")
    }

    /// Makes `NAME.pem` and `NAME.key`, signed by an authority that the test made before.
    func makeCertificate(_ name: String, by authority: String, alternativeNames: String, days: Int = 2) throws {
        try openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=\(name) -keyout \(name).key -out \(name).csr")
        try write("\(name).ext", Array("subjectAltName=\(alternativeNames)\n".utf8))
        try openssl(
            """
            x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial -days \(days) -extfile \(name).ext -out \
            \(name).pem
            """
        )
    }
}
