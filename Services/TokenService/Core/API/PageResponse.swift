/// One page of a list, and where the next one begins.
struct PageResponse<Element: Sendable>: Sendable {
    let elements: [Element]
    /// Nil on the last page.
    let nextCursor: String?

    /// - Parameters:
    ///   - name: In the document.
    ///   - field: That holds the elements.
    static func schema(_ name: String, _ field: String, of element: ResponseSchema<Element>) -> ResponseSchema<PageResponse> {
        .object(name, [.required(field, .array(element)) { $0.elements }, .nextCursor { $0.nextCursor }])
    }
}

extension ResponseSchema.Field {
    static func nextCursor(_ cursor: @escaping @Sendable (Value) -> String?) -> Self {
        .nullable("next_cursor", .text(.nextCursor), nil, cursor)
    }
}

extension JSONSchema {
    fileprivate static let nextCursor = JSONSchema.string().orNull.example("AAAB")
        .described("For the next page; null where this is the last.")
}
