package import Postgres
import StrictJSON

/// A property that a caller states and may change, that answers show, and that a table keeps in the column of its name.
package struct Property<Owner: Sendable>: Sendable {
    /// In the body that makes an owner.
    package let new: Fields<Owner>.Field
    /// In a merge patch (RFC 7396): left out, it stays.
    package let change: Fields<Patch<Owner>>.Field
    package let shown: ResponseSchema<Owner>.Field
    package let column: StaticString
    package let stored: @Sendable (Owner) -> PostgresValue
    package let load: @Sendable (PostgresRow, inout Owner) throws -> Void

    package typealias Place<Part> = Fields<Owner>.Field.Place<Part>

    private init<Part>(_ name: StaticString, _ path: Place<Part>, _ type: PropertyType<Part>, new: Fields<Owner>.Field) {
        (self.new, column) = (new, name)
        let (field, schema, description) = ("\(name)", type.request.schema, new.described.schema.description)
        change = Fields.Field(described: .optional(field, schema, description)) { body, patch in
            guard body.has(field), let part = type.request.read(&body, field) else { return }
            patch.then { $0[keyPath: path] = part }
        }
        shown = .required(field, ResponseSchema(schema: schema, write: type.write), description) { $0[keyPath: path] }
        stored = { type.encode($0[keyPath: path]) }
        load = { row, owner in owner[keyPath: path] = try type.decode(row, name) }
    }

    package static func required<Part>(
        _ name: StaticString, _ path: Place<Part>, _ type: PropertyType<Part>, _ description: String
    ) -> Property {
        Property(name, path, type, new: .required("\(name)", path, type.request, description))
    }

    /// Left out of a new owner or null, it is `standard`.
    package static func omissible<Part: DocumentValue>(
        _ name: StaticString, _ path: Place<Part>, _ type: PropertyType<Part>, _ description: String, standard: Part
    ) -> Property {
        Property(name, path, type, new: .omissible("\(name)", path, type.request, description, standard: standard))
    }

    /// Left out of a new owner or null, it is nil.
    package static func nullable<Part: PostgresEncodable & PostgresDecodable & SendableMetatype>(
        _ name: StaticString, _ path: Place<Part?>, _ type: PropertyType<Part>, _ description: String
    ) -> Property {
        .optional(name, path, type.orNull, description)
    }

    /// Left out of a new owner, it is what an owner begins with.
    package static func optional<Part>(
        _ name: StaticString, _ path: Place<Part>, _ type: PropertyType<Part>, _ description: String
    ) -> Property {
        Property(name, path, type, new: .optional("\(name)", path, type.request, description))
    }
}

/// A merge patch: what it does to a value.
package struct Patch<Value: Sendable>: Sendable {
    private var changes: [@Sendable (inout Value) -> Void] = []

    package init() {}

    package mutating func then(_ change: @escaping @Sendable (inout Value) -> Void) { changes.append(change) }
    package func apply(to value: inout Value) { for change in changes { change(&value) } }
}

/// How a property is read, written and stored.
package struct PropertyType<Part: Sendable>: Sendable {
    let request: RequestSchema<Part>
    let write: @Sendable (Part, inout JSONWriter) -> Void
    let encode: @Sendable (Part) -> PostgresValue
    let decode: @Sendable (PostgresRow, StaticString) throws -> Part
}

extension PropertyType where Part: PostgresEncodable & PostgresDecodable & SendableMetatype {
    private init(_ request: RequestSchema<Part>, _ answer: ResponseSchema<Part>) {
        self.init(request: request, write: answer.write, encode: \.postgresValue) { row, column in try row[column] }
    }

    fileprivate var orNull: PropertyType<Part?> {
        PropertyType<Part?>(request: request.orNull) { [write] part, writer in
            if let part { write(part, &writer) } else { writer.null() }
        } encode: { [encode] in
            $0.map(encode) ?? .null(Part.postgresType)
        } decode: { row, column in
            try row[column]
        }
    }
}

extension PropertyType where Part == String {
    package static func text(_ request: RequestSchema<String>) -> Self { Self(request, .text()) }
}

extension PropertyType where Part == Bool {
    package static var boolean: Self { Self(.boolean, .boolean) }
}

extension PropertyType where Part == Int {
    package static func integer(_ range: ClosedRange<Int64>) -> Self { Self(.integer(range), .count) }
}

extension PropertyType where Part: RawRepresentable<String> & CaseIterable & PostgresEncodable & PostgresDecodable & SendableMetatype {
    package static var word: Self { Self(.word, .word) }
}

extension PropertyType {
    /// The column may hold words that a later version writes; they are passed over.
    package static func words<Word>(_ request: RequestSchema<[Word]>) -> Self
    where Part == [Word], Word: RawRepresentable<String> & CaseIterable & SendableMetatype {
        Self(request: request, write: ResponseSchema.array(.word).write) {
            $0.map(\.rawValue).postgresValue
        } decode: { row, column in
            let words: [String] = try row[column]
            return words.compactMap(Word.init(rawValue:))
        }
    }
}
