import Foundation
import Testing

/// Runs the shell blocks of the guides that are marked as runnable, as a reader pastes them: those of one page in one shell, in order.
@Suite("The guides' commands work", .timeLimit(.minutes(5)))
struct GuideTests {
    private static let pages = ["register-devices", "send-and-follow", "move"]

    @Test("The commands of every guide succeed, and succeed again when pasted a second time") func guides() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator(["UNKNOWN_DEVICES": "reject"])
            let tokenService = try await platform.startTokenService()
            try await platform.startDispatcher()
            let key = try await prepare(platform, tokenService)
            for page in Self.pages + Self.pages {
                let text = try String(contentsOfFile: "\(repositoryFolder)/docs/guides/\(page).md", encoding: .utf8)
                let blocks = text.components(separatedBy: "```sh runnable\n").dropFirst().compactMap {
                    $0.components(separatedBy: "```").first
                }
                #expect(!blocks.isEmpty, "\(page) has no runnable block")
                let (ending, output) = try await platform.shell(
                    blocks.joined(separator: "\n"),
                    ["PUSH_URL": tokenService.url, "SIMULATOR_URL": platform.simulatorURL, "PUSH_KEY": key, "PATH": path(platform)])
                #expect(ending == .exited(0), "\(page): \(output)")
            }
        }
    }

    /// What `deploy/run --keep` leaves: an app, and a key for it.
    private func prepare(_ platform: Platform, _ tokenService: RunningService) async throws -> String {
        let settings = ["PUSH_URL": tokenService.url, "PUSH_KEY_FILE": "\(platform.folder)/admin.key", "PATH": path(platform)]
        let (ending, output) = try await platform.shell(
            """
            pushctl demo --simulator '\(platform.simulatorURL)' >&2
            pushctl keys create --app shop --name guides --scopes devices,send,read --quiet >'\(platform.folder)/guides.key'
            """, settings)
        #expect(ending == .exited(0), "\(output)")
        return try String(contentsOfFile: "\(platform.folder)/guides.key", encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private func path(_ platform: Platform) -> String {
        "\(platform.programs):\(ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin")"
    }
}
