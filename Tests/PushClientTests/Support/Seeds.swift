import Foundation

/// Draws and prints the seed of a test's lives. `PUSH_CLIENT_SEED` repeats the one that a failure names.
func drawSeed(of name: String) -> UInt64 {
    let seed = ProcessInfo.processInfo.environment["PUSH_CLIENT_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: .min ... .max)
    print("\(name): PUSH_CLIENT_SEED=\(seed)")
    return seed
}
