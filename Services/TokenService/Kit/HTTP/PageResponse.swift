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
