/// Operations that belong together.
package struct Resource: Sendable {
    package let name: String
    package let summary: String
    package let operations: [Operation]

    package init(_ name: String, _ summary: String, _ operations: [Operation]) {
        self.name = name
        self.summary = summary
        self.operations = operations
    }

    /// The same resource with the operations that a higher floor has for it, behind its own.
    package func adding(_ more: Operation...) -> Resource { Resource(name, summary, operations + more) }

    /// For links: the name in lower case without blanks.
    package var anchor: String { name.lowercased().replacing(" ", with: "-") }
}
