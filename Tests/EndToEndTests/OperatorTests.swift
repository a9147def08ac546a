import Testing

@Suite("An operator works with pushctl", .timeLimit(.minutes(5)))
struct OperatorTests {
    @Test("A key is rotated and an app is changed, from the command line to the database and back") func keysAndApps() async throws {
        try await withPlatform { platform in
            let tokenService = try await platform.startTokenService()
            func pushctl(_ arguments: String...) async throws -> (isDone: Bool, lines: [String]) {
                let (ending, output) = try await platform.run(
                    "pushctl", arguments + ["--url", tokenService.url, "--key-file", "\(platform.folder)/admin.key"])
                return (ending == .exited(0), output.split(separator: "\n").map(String.init))
            }
            #expect(try await pushctl("apps", "create", "bank", "--bundle-id", "com.example.bank").isDone)
            let updated = try await pushctl(
                "apps", "update", "bank", "--device-policy", "single", "--stale-after-days", "180", "--remove-stale")
            // Warnings follow: no dispatcher has the app's credentials.
            #expect(updated.isDone && updated.lines.count > 2, "\(updated.lines)")
            #expect(updated.lines.dropFirst(2).allSatisfy { $0.hasPrefix("warning: ") }, "\(updated.lines)")
            #expect(updated.lines[1].split(separator: " ").contains("single"))
            #expect(updated.lines[1].hasSuffix("180 days     removed     -       0 s"))
            #expect(try await pushctl("apps", "show", "bank").lines.prefix(2) == updated.lines.prefix(2))
            let kept = try await pushctl("apps", "update", "bank", "--never-stale", "--keep-stale").lines
            #expect(kept.count > 1 && kept[1].hasSuffix("never        -           -       0 s"), "\(kept)")
            #expect(try await !pushctl("apps", "show", "nothing").isDone)

            let made = try await pushctl("keys", "create", "--app", "bank", "--name", "orders", "--scopes", "send", "--rate", "50")
            let old = try #require(made.lines.first?.split(separator: "_")).map(String.init)[1]
            let rotated = try await pushctl("keys", "rotate", old, "--overlap-seconds", "3600")
            let new = try #require(rotated.lines.first?.split(separator: "_")).map(String.init)[1]
            #expect(rotated.isDone && new != old)
            let again = try await pushctl("keys", "rotate", old)
            #expect(!again.isDone && again.lines.joined().contains(new), "\(again.lines)")
            let list = try await pushctl("keys", "list")
            #expect(list.lines.contains { $0.hasPrefix(old) && $0.contains("50/s") && $0.contains("expiring") }, "\(list.lines)")
            #expect(list.lines.contains { $0.hasPrefix(new) && $0.contains("50/s") && $0.hasSuffix(old) }, "\(list.lines)")
        }
    }
}
