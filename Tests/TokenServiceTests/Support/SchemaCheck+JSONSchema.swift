import StrictJSON
import TestSupport
import TokenServiceAPI
import TokenServiceKit

extension SchemaCheck {
    private static let description = Result { try APIDescription(Array(OpenAPIDocument.text.utf8)) }

    /// Holds a value against a schema as the API's description writes it.
    static func faults(of value: JSONValue, against schema: JSONSchema) -> [String] {
        do {
            return SchemaCheck(value, against: try JSONValue.parse(Array(schema.node.json.utf8)), in: try description.get()).faults
        } catch { return ["the schema cannot be read: \(error)"] }
    }
}
