import PushModel

/// The pushes that APNs saw, for each delivery. Compact: some hundred million bytes for millions of pushes.
struct PushLog {
    struct Attempt {
        let time: Int64
        let fate: Push.Fate
        /// The previous attempt of the same delivery; -1 for none.
        let previous: Int32
    }

    struct Delivery {
        let id: PushID
        let token: Int32
        /// An index in the book of sends; -1 if no request sent it.
        let send: Int32
        var last: Int32
        var isAccepted = false
        /// The next one of the same send; -1 for none.
        let nextOfSend: Int32
    }

    /// A rejection of a token by APNs.
    struct Refusal {
        let time: Int64
        let status: Int
        let timestamp: Int64?
        let delivery: PushID
    }

    private(set) var attempts: [Attempt] = []
    private(set) var deliveries: [Delivery] = []
    private var byID: [PushID: Int32] = [:]
    private(set) var refusals: [Int32: [Refusal]] = [:]

    func delivery(_ id: PushID) -> Delivery? { byID[id].map { deliveries[Int($0)] } }
    func index(_ id: PushID) -> Int32? { byID[id] }

    /// - Parameter send: What the marker leads to, and the first delivery that it had before.
    /// - Returns: The delivery's place, and whether it is its first attempt.
    mutating func note(_ push: Push, token: Int32, send: Int32, nextOfSend: Int32) -> (place: Int32, isNew: Bool) {
        let known = byID[push.id]
        let place = known ?? Int32(deliveries.count)
        let attempt = Int32(attempts.count)
        attempts.append(Attempt(time: push.time, fate: push.fate, previous: known.map { deliveries[Int($0)].last } ?? -1))
        if known == nil {
            byID[push.id] = place
            deliveries.append(Delivery(id: push.id, token: token, send: send, last: attempt, nextOfSend: nextOfSend))
        } else {
            deliveries[Int(place)].last = attempt
        }
        if push.fate == .accepted { deliveries[Int(place)].isAccepted = true }
        if case .refused(let status) = push.fate, status == 410 || status == 400, token >= 0 {
            refusals[token, default: []].append(Refusal(time: push.time, status: status, timestamp: push.timestamp, delivery: push.id))
        }
        return (place, known == nil)
    }

    /// A delivery's attempts, the last one first.
    func attempts(of delivery: Delivery) -> [Attempt] {
        var found: [Attempt] = []
        var next = delivery.last
        while next >= 0 {
            found.append(attempts[Int(next)])
            next = attempts[Int(next)].previous
        }
        return found
    }

    /// The deliveries of a send, whose first one is named.
    func deliveries(from first: Int32) -> [Delivery] {
        var found: [Delivery] = []
        var next = first
        while next >= 0 {
            found.append(deliveries[Int(next)])
            next = deliveries[Int(next)].nextOfSend
        }
        return found
    }
}
