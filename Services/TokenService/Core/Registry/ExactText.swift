/// Swift compares strings by canonical equivalence, PostgreSQL by bytes: to one, é and e with an accent are the same user, to the other
/// two. The database holds the users, so bytes count wherever a user, or what a device reported, is compared here.
extension String {
    package func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
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
