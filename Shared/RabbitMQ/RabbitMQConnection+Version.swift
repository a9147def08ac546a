import CRabbitMQ

extension RabbitMQConnection {
    /// The first number of the broker's version, which it sends at the login; 0 if it does not.
    package func brokerMajorVersion() throws(RabbitMQError) -> Int {
        try requireUsable("version")
        guard let properties = amqp_get_server_properties(state)?.pointee else { return 0 }
        for index in 0..<Int(properties.num_entries) {
            let entry = properties.entries[index]
            guard String(entry.key) == "version", entry.value.kind == UInt8(AMQP_FIELD_KIND_UTF8.rawValue) else { continue }
            return Int(String(entry.value.value.bytes).prefix { $0 != "." }) ?? 0
        }
        return 0
    }
}
