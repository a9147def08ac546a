/// A value in a table of arguments or headers. Unused kinds (tables, arrays, decimals) are read as `other`.
package enum RabbitMQValue: Hashable, Sendable {
    case string(String)
    case integer(Int64)
    case boolean(Bool)
    case double(Double)
    case other

    package var string: String? {
        if case .string(let text) = self { text } else { nil }
    }
    package var integer: Int64? {
        if case .integer(let number) = self { number } else { nil }
    }
}

extension RabbitMQValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral text: String) { self = .string(text) }
    package init(integerLiteral number: Int64) { self = .integer(number) }
    package init(booleanLiteral truth: Bool) { self = .boolean(truth) }
}
