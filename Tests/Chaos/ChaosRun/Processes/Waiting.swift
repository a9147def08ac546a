import Foundation

/// Asks until it is so. The pauses are between questions to another process, which can only be asked.
/// - Throws: ``ChaosError`` with the program's last words when it takes too long.
func waitUntil(
    _ what: String, _ program: OwnedProgram? = nil, within patience: Duration = .seconds(90), _ condition: () async -> Bool
) async throws {
    let deadline = ContinuousClock.now + patience
    while await !condition() {
        guard ContinuousClock.now < deadline else {
            throw ChaosError("\(patience) passed and it is not so that \(what).\(program.map { " Its log ends:\n\($0.lastWords)" } ?? "")")
        }
        try await Task.sleep(for: .milliseconds(50))
    }
}
