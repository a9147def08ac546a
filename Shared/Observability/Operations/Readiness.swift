import StrictJSON

/// Whether a service can do its work now, and the state of each dependency.
package struct Readiness: Sendable, Equatable {
    package struct Check: Sendable, Equatable {
        package let name: String
        package let isOK: Bool
        /// For people; shown to every client that reaches the operations port.
        package let detail: String

        package init(_ name: String, isOK: Bool, _ detail: String) {
            self.name = name
            self.isOK = isOK
            self.detail = detail
        }
    }

    package let checks: [Check]

    /// - Parameter checks: Names are unique.
    package init(_ checks: [Check]) { self.checks = checks }

    package var isReady: Bool { checks.allSatisfy(\.isOK) }

    /// `{"ready":true,"checks":{"<name>":{"ok":true,"detail":"…"}}}`
    package func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.field("ready", isReady)
            writer.object("checks") { writer in
                for check in checks {
                    writer.object(check.name) { writer in
                        writer.field("ok", check.isOK)
                        writer.field("detail", check.detail)
                    }
                }
            }
        }
        return writer.bytes
    }
}
