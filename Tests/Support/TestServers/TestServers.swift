import FoundationEssentials
import Testing

/// The servers, the built programs and the foreign clients that `deploy/test` brings.
///
/// A test that asks for one of them is skipped if it is not there, so that `swift test` alone runs the tests that need none. `deploy/test`
/// sets `PUSH_TEST_SERVERS`; then the test fails instead.
package enum TestServers {
    package struct Missing: Error, CustomStringConvertible {
        package let description: String
        package init(description: String) { self.description = description }
    }

    /// The value of an environment variable that says where one of them is.
    package static func variable(_ name: String, _ meaning: String) throws -> String {
        if let value = ProcessInfo.processInfo.environment[name], !value.isEmpty { return value }
        try require()
        throw Missing(description: "\(name) is not set, which is \(meaning)")
    }

    /// Skips the running test if it was not started by `deploy/test`.
    package static func require() throws {
        if ProcessInfo.processInfo.environment["PUSH_TEST_SERVERS"] == nil {
            try Test.cancel("needs servers or programs that deploy/test brings: run deploy/test")
        }
    }

    /// The folder of the built programs.
    package static func programs() throws -> String { try variable("PUSH_TEST_PROGRAMS", "the folder of the built programs") }

    /// A Python with the libraries of `APNsSimulatorTests/Clients/requirements.txt`.
    package static func python() throws -> String { try variable("PUSH_TEST_PYTHON", "a Python with foreign HTTP/2 clients") }
}
