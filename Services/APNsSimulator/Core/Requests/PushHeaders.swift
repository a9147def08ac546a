/// A header's value after reading.
enum Parsed<Value> {
    case absent
    /// It does not have the form that APNs requires.
    case invalid
    case value(Value)

    init(_ value: Value?) {
        if let value { self = .value(value) } else { self = .invalid }
    }

    var isAbsent: Bool {
        if case .absent = self { true } else { false }
    }
}

/// The parsed headers that APNs reads. Not copyable: a copy would count references for every push.
struct PushHeaders: ~Copyable {
    enum Path {
        /// Not `/3/device/` followed by a text without a slash.
        case other
        case withoutToken
        /// The text in the token's place is not a token.
        case badToken
        case token(TokenKey)
    }

    var isPost = false
    var path: Parsed<Path> = .absent
    var authorization: [UInt8]?
    var id: Parsed<MessageID> = .absent
    var topic: Parsed<[UInt8]> = .absent
    var type: Parsed<PushType> = .absent
    var priority: Parsed<Int> = .absent
    var expiration: Parsed<Int> = .absent
    var collapseID: Parsed<[UInt8]> = .absent
    /// One of these came twice.
    var hasDuplicate = false
}
