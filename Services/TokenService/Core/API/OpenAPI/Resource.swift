/// Operations that belong together, with the schemas that they brought along.
package struct Resource: Sendable {
    package let name: String
    package let summary: String
    package let operations: [Operation]
    /// In the order in which a reader needs them.
    package let schemas: KeyValuePairs<String, JSONSchema>

    init(_ name: String, _ summary: String, operations: [Operation], schemas: KeyValuePairs<String, JSONSchema> = [:]) {
        self.name = name
        self.summary = summary
        self.operations = operations
        self.schemas = schemas
    }

    /// For links: the name in lower case without blanks.
    package var anchor: String { name.lowercased().replacing(" ", with: "-") }
}
