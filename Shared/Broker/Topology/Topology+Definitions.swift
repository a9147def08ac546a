import RabbitMQ
import StrictJSON

extension Topology {
    /// The same objects as a definitions file for `rabbitmqctl import_definitions`, for operators who forbid services to declare.
    /// - Returns: JSON text.
    package func definitions(virtualHost: String = "/") -> [UInt8] {
        var json = JSONWriter(reservingCapacity: 8192)
        json.object { json in
            json.array("exchanges") { json in
                for exchange in exchanges {
                    json.object { json in
                        json.field("name", exchange.name)
                        json.field("vhost", virtualHost)
                        json.field("type", exchange.kind.rawValue)
                        json.field("durable", true)
                        json.field("auto_delete", false)
                        json.field("internal", false)
                        json.object("arguments") { _ in }
                    }
                }
            }
            json.array("queues") { json in
                for queue in queues { write(queue, virtualHost, to: &json) }
            }
            json.array("bindings") { json in
                for binding in bindings { write(binding, virtualHost, to: &json) }
            }
        }
        return json.bytes
    }

    private func write(_ queue: DeclaredQueue, _ virtualHost: String, to json: inout JSONWriter) {
        json.object { json in
            json.field("name", queue.name)
            json.field("vhost", virtualHost)
            json.field("durable", true)
            json.field("auto_delete", false)
            json.object("arguments") { json in
                for (name, value) in queue.arguments.sorted(by: { $0.key < $1.key }) {
                    switch value {
                    case .string(let text): json.field(name, text)
                    case .integer(let number): json.field(name, number)
                    case .boolean(let truth): json.field(name, truth)
                    case .double(let number): json.field(name, number)
                    case .other: break
                    }
                }
            }
        }
    }

    private func write(_ binding: DeclaredBinding, _ virtualHost: String, to json: inout JSONWriter) {
        json.object { json in
            json.field("source", binding.exchange)
            json.field("vhost", virtualHost)
            json.field("destination", binding.queue)
            json.field("destination_type", "queue")
            json.field("routing_key", binding.routingKey)
            json.object("arguments") { _ in }
        }
    }
}
