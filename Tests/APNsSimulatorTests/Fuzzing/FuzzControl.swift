import Dispatch
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOEmbedded
import OpenSSL
import Synchronization

@testable import APNsSimulator

/// Requests to the control API, without its socket.
enum FuzzControl {
    private static let channel = EmbeddedChannel()

    private static let target: (simulator: APNsSimulator, responder: RouterResponder<BasicRequestContext>)? = {
        do {
            let folder = FileManager.default.temporaryDirectory.appending(path: "simulator-fuzz-\(UUID().uuidString)").path()
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { removeFolder(folder) }
            let (certificate, key) = (folder + "/server.pem", folder + "/server.key")
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments =
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj"]
                + ["/CN=localhost", "-keyout", key, "-out", certificate]
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            let simulator = try APNsSimulator(APNsSimulatorConfiguration(certificateFile: certificate, keyFile: key, keys: []))
            // No request may wait for pushes that cannot come.
            simulator.world.close()
            let logger = Logger(label: "fuzz", factory: { _ in SwiftLogNoOpLogHandler() })
            return (simulator, ControlRoutes(simulator: simulator, logger: logger).responder())
        } catch {
            print("no control API to fuzz: \(error)")
            return nil
        }
    }()

    private static func removeFolder(_ folder: String) {
        do { try FileManager.default.removeItem(atPath: folder) } catch { print("\(folder) stays behind: \(error)") }
    }

    static func run(_ bytes: [UInt8]) {
        let parts = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
        let line = String(decoding: parts[0], as: UTF8.self).split(separator: " ", maxSplits: 1)
        guard let (simulator, responder) = target, line.count == 2, let method = HTTPRequest.Method(String(line[0])) else { return }
        let body = ByteBuffer(bytes: parts.count > 1 ? Array(parts[1]) : [])
        let request = Request(
            head: HTTPRequest(method: method, scheme: "http", authority: "localhost", path: String(line[1])),
            body: RequestBody(buffer: body))
        let finished = DispatchSemaphore(value: 0)
        Task.detached {
            let context = BasicRequestContext(
                source: ApplicationRequestContextSource(channel: channel, logger: Logger(label: "fuzz")))
            do {
                let response = try await responder.respond(to: request, context: context)
                precondition(response.status.code < 500, "a request made the simulator fail: \(response.status)")
            } catch {
                preconditionFailure("an error got past the last handler: \(error)")
            }
            finished.signal()
        }
        finished.wait()
        // Removes the devices of this input, so that the next input does not find them and they do not pile up.
        simulator.world.state.withLock { $0.records = [:] }
    }
}
