/// Jobs of one lane never wait behind another lane's. The raw value is the routing key and the queue's last word.
package enum Lane: String, Sendable, CaseIterable {
    case now, soon, bulk
}

/// One value for each lane, without a dictionary on the hot path.
package struct Lanes<Value> {
    private var now: Value
    private var soon: Value
    private var bulk: Value

    package init(_ value: Value) {
        (now, soon, bulk) = (value, value, value)
    }

    package subscript(_ lane: Lane) -> Value {
        get {
            switch lane {
            case .now: now
            case .soon: soon
            case .bulk: bulk
            }
        }
        _modify {
            switch lane {
            case .now: yield &now
            case .soon: yield &soon
            case .bulk: yield &bulk
            }
        }
    }
}

extension Lanes: Sendable where Value: Sendable {}
extension Lanes: Equatable where Value: Equatable {}
