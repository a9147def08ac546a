import Foundation
import FoundationNetworking
import Glibc
import Testing

@Suite("Reading credentials on request", .timeLimit(.minutes(5)))
struct CredentialReloadTests {
    @Test("On SIGHUP the dispatcher reads its credentials at once; a broken file changes nothing, and neither ends the process")
    func obeysHangUp() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            // The dispatcher checks its files once an hour, so a change can only come from the signal.
            let dispatcher = try await platform.startDispatcher("dispatcher", ["APNS_CREDENTIALS_CHECK_SECONDS": "3600"])
            let file = URL(filePath: "\(platform.folder)/credentials/credentials.json")
            let good = try String(contentsOf: file, encoding: .utf8)
            try Data("{".utf8).write(to: file)
            dispatcher.process.send(SIGHUP)
            _ = try await eventually("the broken file is said") {
                try await page(dispatcher, "metrics").contains("push_dispatcher_credentials_current 0") ? true : nil
            }
            let name = try #require(good.firstMatch(of: /"name": *"([a-z0-9-]+)"/)?.output.1)
            #expect(try await page(dispatcher, "readyz").contains("apns.\(name).production"), "its pool is there as before")
            try Data(good.replacingOccurrences(of: "\"\(name)\"", with: "\"renamed\"").utf8).write(to: file)
            dispatcher.process.send(SIGHUP)
            _ = try await eventually("the new pool serves") {
                try await page(dispatcher, "readyz").contains("apns.renamed.production") ? true : nil
            }
            #expect(try await page(dispatcher, "metrics").contains(#"push_dispatcher_credentials_reloads_total{result="adopted"} 1"#))
            dispatcher.process.send(SIGTERM)
            #expect(await dispatcher.process.waitForEnd() == .exited(0))
        }
    }

    private func page(_ service: RunningService, _ name: String) async throws -> String {
        let url = try #require(URL(string: "\(service.url)/\(name)"))
        return String(decoding: try await URLSession.shared.data(from: url).0, as: UTF8.self)
    }
}
