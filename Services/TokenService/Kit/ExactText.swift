/// Swift compares strings by canonical equivalence, PostgreSQL by bytes: an é of one scalar and an e with a combining accent are one user
/// in Swift and two in PostgreSQL. The database holds the users, so code here compares users and device data by bytes.
extension String {
    package func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}

extension [String] {
    package func haveSameBytes(as others: [String]) -> Bool {
        count == others.count && zip(self, others).allSatisfy { $0.hasSameBytes(as: $1) }
    }
}

extension Optional<String> {
    package func hasSameBytes(as other: String?) -> Bool {
        switch (self, other) {
        case (nil, nil): true
        case (let left?, let right?): left.hasSameBytes(as: right)
        default: false
        }
    }
}
