import StrictJSON

/// The fields of one kind of object, in the order they are written: an enumeration whose raw values are the names on the wire.
struct FieldTable<Field: RawRepresentable<String> & CaseIterable & Sendable>: Sendable {
    let names: JSONNames
    private let fields: [Field]

    init(_ type: Field.Type) {
        fields = Array(Field.allCases)
        names = JSONNames(fields.map(\.rawValue))
    }

    /// The next field of the object that `place` is in, its value to be read next; nil at the end. Unknown fields are passed over.
    func next(in scanner: inout JSONScanner, _ place: inout JSONFields) throws(JSONError) -> Field? {
        try scanner.next(&place).map { fields[$0] }
    }
}
