/// Operations that belong together.
package struct Resource: Sendable {
    package let name: String
    package let summary: String
    package let operations: [Operation]

    init(_ name: String, _ summary: String, _ operations: [Operation]) {
        self.name = name
        self.summary = summary
        self.operations = operations
    }

    /// For links: the name in lower case without blanks.
    package var anchor: String { name.lowercased().replacing(" ", with: "-") }
}
