package import HTTPTypes
package import Hummingbird
package import PushModel
package import StrictJSON

/// A JSON value of an answer: its JSON schema, which the API's document shows, and the way to write it.
///
/// Both are made from one list of an object's fields, so that they cannot differ.
package struct ResponseSchema<Value>: Sendable {
    package let schema: JSONSchema
    package let write: @Sendable (Value, inout JSONWriter) -> Void

    package init(schema: JSONSchema, write: @escaping @Sendable (Value, inout JSONWriter) -> Void) {
        self.schema = schema
        self.write = write
    }

    /// One field of an object, or the fields of one part of the value.
    package struct Field: Sendable {
        package let described: [JSONSchema.Field]
        let write: @Sendable (Value, inout JSONWriter) -> Void
    }

    /// - Parameter name: The document describes the object once, under this name; without a name, at each place.
    package static func object(_ name: String? = nil, _ fields: [Field]) -> ResponseSchema {
        let object = JSONSchema.answer(fields.flatMap(\.described))
        return ResponseSchema(schema: name.map { .named($0, object) } ?? object) { value, writer in
            writer.object { object in
                for field in fields { field.write(value, &object) }
            }
        }
    }

    /// - Parameter schema: The schema of a list that needs more than the schema of its elements.
    package static func array<Element>(
        _ element: ResponseSchema<Element>, _ schema: JSONSchema? = nil
    ) -> ResponseSchema where Value == [Element] {
        ResponseSchema(schema: schema ?? .array(element.schema)) { elements, writer in
            writer.array { array in
                for value in elements { element.write(value, &array) }
            }
        }
    }
}

extension ResponseSchema.Field {
    package static func required<Part>(
        _ name: String, _ type: ResponseSchema<Part>, _ description: String? = nil, _ part: @escaping @Sendable (Value) -> Part
    ) -> Self {
        let encoded = JSONWriter.encoded(name: name)
        return Self(described: [.required(name, type.schema, description)]) { value, writer in
            writer.name(encoded: encoded)
            type.write(part(value), &writer)
        }
    }

    /// Left out where the part is nil.
    package static func optional<Part>(
        _ name: String, _ type: ResponseSchema<Part>, _ description: String? = nil, _ part: @escaping @Sendable (Value) -> Part?
    ) -> Self {
        let encoded = JSONWriter.encoded(name: name)
        return Self(described: [.optional(name, type.schema, description)]) { value, writer in
            guard let part = part(value) else { return }
            writer.name(encoded: encoded)
            type.write(part, &writer)
        }
    }

    /// Always there, null where the part is nil.
    package static func nullable<Part>(
        _ name: String, _ type: ResponseSchema<Part>, _ description: String? = nil, _ part: @escaping @Sendable (Value) -> Part?
    ) -> Self {
        let encoded = JSONWriter.encoded(name: name)
        return Self(described: [.required(name, type.schema.orNull, description)]) { value, writer in
            writer.name(encoded: encoded)
            if let part = part(value) { type.write(part, &writer) } else { writer.null() }
        }
    }

    /// The fields of a part stand among those of the object.
    package static func all<Part>(_ fields: [ResponseSchema<Part>.Field], _ part: @escaping @Sendable (Value) -> Part) -> Self {
        Self(described: fields.flatMap(\.described)) { value, writer in
            let part = part(value)
            for field in fields { field.write(part, &writer) }
        }
    }
}

// MARK: Values

extension ResponseSchema where Value == String {
    package static func text(_ schema: JSONSchema = .string()) -> ResponseSchema { ResponseSchema(schema: schema) { $1.value($0) } }
}

extension ResponseSchema where Value == Bool {
    package static var boolean: ResponseSchema { ResponseSchema(schema: .boolean) { $1.value($0) } }
}

extension ResponseSchema where Value: FixedWidthInteger & SignedInteger & SendableMetatype {
    package static var count: ResponseSchema { integer(.count) }
    package static func integer(_ schema: JSONSchema) -> ResponseSchema { ResponseSchema(schema: schema) { $1.value($0) } }
}

extension ResponseSchema where Value == Int64 {
    /// UNIX milliseconds, as RFC 3339 text.
    package static var time: ResponseSchema {
        ResponseSchema(schema: .time) { time, writer in writer.plainString { RFC3339.append(milliseconds: time, to: &$0) } }
    }
}

extension ResponseSchema where Value == PushID {
    package static var uuid: ResponseSchema<PushID> {
        ResponseSchema(schema: .uuid) { id, writer in writer.plainString { id.append(to: &$0) } }
    }
}

extension ResponseSchema where Value == AppSlug {
    package static var slug: ResponseSchema { ResponseSchema(schema: .slug) { $1.value($0.text) } }
}

extension ResponseSchema where Value == DeviceToken {
    package static var deviceToken: ResponseSchema {
        ResponseSchema(schema: .deviceToken) { token, writer in writer.plainString { token.appendHex(to: &$0) } }
    }
}

extension ResponseSchema where Value: RawRepresentable<String> & CaseIterable & SendableMetatype {
    /// The raw value of an enumeration's case.
    package static var word: ResponseSchema { ResponseSchema(schema: .words(Value.self)) { $1.value($0.rawValue) } }
}

extension ResponseSchema where Value == [UInt8] {
    /// Bytes that are JSON already.
    package static func raw(_ schema: JSONSchema) -> ResponseSchema { ResponseSchema(schema: schema) { $1.raw($0) } }
}

package enum JSONAnswer {
    private static let contentType = HTTPField(name: .contentType, value: "application/json")
    private static let cacheControl = HTTPField(name: .cacheControl, value: "no-store")

    /// - Parameter headers: Further headers, beside the content's type and `no-store`.
    package static func response<Value>(
        _ status: HTTPResponse.Status, _ schema: ResponseSchema<Value>, _ value: Value, headers: HTTPFields = [:]
    ) -> Response {
        var writer = JSONWriter()
        schema.write(value, &writer)
        var headers = headers
        headers.append(contentType)
        headers.append(cacheControl)
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: writer.bytes)))
    }

    package static let noContent = Response(status: .noContent)
}

/// One page of a list, and where the next one begins.
package struct PageResponse<Element: Sendable>: Sendable {
    package let elements: [Element]
    /// Nil on the last page.
    package let nextCursor: String?

    package init(elements: [Element], nextCursor: String?) {
        self.elements = elements
        self.nextCursor = nextCursor
    }

    /// - Parameters:
    ///   - name: In the document.
    ///   - field: That holds the elements.
    package static func schema(_ name: String, _ field: String, of element: ResponseSchema<Element>) -> ResponseSchema<PageResponse> {
        .object(name, [.required(field, .array(element)) { $0.elements }, .nextCursor { $0.nextCursor }])
    }
}

extension ResponseSchema.Field {
    package static func nextCursor(_ cursor: @escaping @Sendable (Value) -> String?) -> Self {
        .nullable("next_cursor", .text(.nextCursor), nil, cursor)
    }
}

extension JSONSchema {
    fileprivate static let nextCursor = JSONSchema.string().orNull.example("AAAB")
        .described("For the next page; null where this is the last.")
}
