import PushModel
package import StrictJSON

/// A JSON value of a request: its JSON schema, which the API's document shows, and the way to read it.
///
/// ``ResponseSchema`` backwards: the document and the reader of a body are made from one list of fields (``Fields``), so that they cannot
/// differ. What several fields decide together is left to the one who reads them.
package struct RequestSchema<Value: Sendable>: Sendable {
    package let schema: JSONSchema
    /// Reads the field of that name. One that is missing, null or wrong reads as nil and leaves a problem.
    package let read: @Sendable (inout JSONObjectReader, String) -> Value?

    package init(_ schema: JSONSchema, _ read: @escaping @Sendable (inout JSONObjectReader, String) -> Value?) {
        self.schema = schema
        self.read = read
    }

    /// Refuses, with that code and detail, a value that `convert` makes nothing of.
    package func checked<Other>(
        _ code: String, _ detail: String, _ convert: @escaping @Sendable (Value) -> Other?
    ) -> RequestSchema<Other> {
        RequestSchema<Other>(schema) { [read] body, name in
            guard let value = read(&body, name) else { return nil }
            let other = convert(value)
            if other == nil { body.problem(name, code, detail) }
            return other
        }
    }

    /// Takes null as well, which reads as `.some(nil)`.
    package var orNull: RequestSchema<Value?> {
        RequestSchema<Value?>(schema.orNull) { [read] body, name in
            guard let value = body.value(name) else { return nil }
            return value.isNull ? .some(nil) : read(&body, name)
        }
    }

    package func example(_ node: DocumentNode) -> RequestSchema { RequestSchema(schema.example(node), read) }
}

/// The fields of an object of a request.
package struct Fields<Value: Sendable>: Sendable {
    package let described: [JSONSchema.Field]
    private let list: [Field]

    package init(_ list: [Field]) {
        described = list.map(\.described)
        self.list = list
    }

    /// Reads an object that has these fields and no other.
    /// - Parameter start: What it is without any field.
    /// - Returns: nil after a problem, of this object or one that was read before.
    package func read(_ body: inout JSONObjectReader, from start: Value) -> Value? {
        var value = start
        for field in list { field.read(&body, &value) }
        body.finish()
        return body.problems.isEmpty ? value : nil
    }

    package struct Field: Sendable {
        package typealias Place<Part> = any WritableKeyPath<Value, Part> & Sendable

        let described: JSONSchema.Field
        let read: @Sendable (inout JSONObjectReader, inout Value) -> Void
    }
}

extension Fields.Field {
    package static func required<Part>(
        _ name: String, _ path: Place<Part>, _ type: RequestSchema<Part>, _ description: String? = nil
    ) -> Self {
        Self(described: .required(name, type.schema, description)) { body, value in
            if let part = type.read(&body, name) { value[keyPath: path] = part }
        }
    }

    /// Left out or null, it is `standard`.
    package static func omissible<Part: DocumentValue>(
        _ name: String, _ path: Place<Part>, _ type: RequestSchema<Part>, _ description: String? = nil,
        standard: Part
    ) -> Self {
        Self(described: .omissible(name, type.schema.standard(standard.node), description)) { body, value in
            value[keyPath: path] = body.optionalValue(name) == nil ? standard : type.read(&body, name) ?? standard
        }
    }

    /// Left out, the value keeps what it has; null is nil.
    package static func omissible<Part>(
        _ name: String, _ path: Place<Part?>, _ type: RequestSchema<Part>, _ description: String? = nil
    ) -> Self {
        .optional(name, path, type.orNull, description)
    }

    /// Left out, the value keeps what it has.
    package static func optional<Part>(
        _ name: String, _ path: Place<Part>, _ type: RequestSchema<Part>, _ description: String? = nil
    ) -> Self {
        Self(described: .optional(name, type.schema, description)) { body, value in
            if body.has(name), let part = type.read(&body, name) { value[keyPath: path] = part }
        }
    }
}

// MARK: Values

extension RequestSchema where Value == String {
    /// - Parameter schema: By itself, of a name of so many bytes.
    package static func text(_ maximumBytes: Int, _ schema: JSONSchema? = nil) -> RequestSchema {
        RequestSchema(schema ?? .string(maximumBytes)) { $0.string($1, maximumBytes: maximumBytes) }
    }
}

extension RequestSchema where Value == Bool {
    package static var boolean: RequestSchema { RequestSchema(.boolean) { $0.bool($1) } }
}

extension RequestSchema where Value: FixedWidthInteger & SignedInteger & SendableMetatype {
    package static func integer(_ range: ClosedRange<Int64>) -> RequestSchema {
        RequestSchema(.integer(range)) { $0.integer($1, in: range).map { Value($0) } }
    }
}

extension RequestSchema where Value == Int64 {
    /// An RFC 3339 date and time, as UNIX milliseconds.
    package static var time: RequestSchema {
        RequestSchema<String>.text(64, .time).checked("invalid_time", "an RFC 3339 date and time") { RFC3339.milliseconds($0) }
    }
}

extension RequestSchema where Value: RawRepresentable<String> & CaseIterable & SendableMetatype {
    /// The raw value of an enumeration's case.
    package static var word: RequestSchema { RequestSchema(.words(Value.self)) { $0.choice($1, of: Value.self) } }
}

extension RequestSchema {
    /// The raw values of an enumeration's cases, none twice.
    /// - Parameter rule: The words and how many of them, for people.
    package static func words<Word>(minimum: Int? = nil, _ rule: String) -> RequestSchema
    where Value == [Word], Word: RawRepresentable<String> & CaseIterable & SendableMetatype {
        let maximum = Word.allCases.count
        let schema = JSONSchema.array(.words(Word.self), minimum: minimum, maximum: maximum).unique
        return RequestSchema<[String]>(schema) { $0.strings($1, maximumCount: maximum, maximumBytes: 16) }
            .checked("unsupported_value", rule) { texts in
                let words = texts.compactMap(Word.init(rawValue:))
                return words.count == texts.count && Set(texts).count == texts.count && words.count >= minimum ?? 0 ? words : nil
            }
    }
}

/// A Swift value that the API's document can show.
package protocol DocumentValue: Sendable {
    var node: DocumentNode { get }
}

extension Bool: DocumentValue { package var node: DocumentNode { .boolean(self) } }
extension Int: DocumentValue { package var node: DocumentNode { .integer(Int64(self)) } }
extension Int64: DocumentValue { package var node: DocumentNode { .integer(self) } }
