/// Jobs of one lane never wait behind another lane's. The raw value is the routing key and the queue's last word.
package enum Lane: String, Sendable, CaseIterable {
    case now, soon, bulk
}
