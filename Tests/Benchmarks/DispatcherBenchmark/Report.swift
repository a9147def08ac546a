import StrictJSON

/// One measurement.
struct Report {
    let name: String
    let deliveries: Int
    let seconds: Double
    var accepted: Int?
    var sent: Int?
    var events: Int?
    var repeated: Int?
    var cpuSeconds: Double?

    /// One JSON object on a line of its own.
    func print() {
        var json = JSONWriter()
        json.object { json in
            json.field("measure", name)
            json.field("deliveries", deliveries)
            json.field("seconds", rounded(seconds))
            json.field("per_second", rounded(Double(deliveries) / seconds))
            if let accepted { json.field("accepted", accepted) }
            if let sent { json.field("sent", sent) }
            if let events { json.field("events", events) }
            if let repeated { json.field("repeated", repeated) }
            if let cpuSeconds {
                json.field("cpu_seconds", rounded(cpuSeconds))
                json.field("cpu_microseconds_per_delivery", rounded(cpuSeconds * 1e6 / Double(deliveries)))
            }
        }
        Swift.print(String(decoding: json.bytes, as: UTF8.self))
    }

    private func rounded(_ value: Double) -> Double { (value * 1_000_000).rounded() / 1_000_000 }
}
