import PushModel

/// The figures of one codec with one job.
struct Figure {
    let codec: String
    let deliveries: Int
    let bytes: Int
    let encode: Duration
    let decode: Duration
}

/// Runs every codec in every round, so that other load of the machine hits all of them, and takes each one's median.
func measure(_ codecs: [any JobCodec], _ job: PushJob, rounds: Int) throws -> [Figure] {
    var encode: [[Duration]] = Array(repeating: [], count: codecs.count)
    var decode = encode
    let repetitions = max(200, 40_000 / (job.deliveries.count + 5))
    for round in 0...rounds {
        for (index, codec) in codecs.enumerated() {
            let bytes = try codec.encode(job)
            guard try codec.decode(bytes) == job else { throw InvalidJob(field: "read back by \(codec.name)") }
            let encoding = try time(repetitions) { try codec.encode(job).count }
            let decoding = try time(repetitions) { try codec.decode(bytes).deliveries.count }
            // The first round warms up.
            if round > 0 {
                encode[index].append(encoding)
                decode[index].append(decoding)
            }
        }
    }
    return try codecs.enumerated().map { index, codec in
        Figure(
            codec: codec.name, deliveries: job.deliveries.count, bytes: try codec.encode(job).count, encode: median(encode[index]),
            decode: median(decode[index]))
    }
}

/// The time of one of `repetitions` calls. Each returns something that depends on its work, which must come out the same.
private func time(_ repetitions: Int, _ work: () throws -> Int) throws -> Duration {
    var sum = 0
    let first = try work()
    let total = try ContinuousClock().measure {
        for _ in 0..<repetitions { sum += try work() }
    }
    guard sum == first * repetitions else { throw InvalidJob(field: "differing results") }
    return total / repetitions
}

private func median(_ values: [Duration]) -> Duration { values.sorted()[values.count / 2] }

extension PushJob {
    /// An ordinary alert: tokens of 32 bytes, a payload of some 200.
    static func sample(deliveries: Int) -> PushJob {
        var random = SystemRandomNumberGenerator()
        let payload =
            #"{"aps":{"alert":{"title":"Your parcel is here","body":"It arrived at 14:05 and waits for you until Saturday, 18:00."},"#
            + #""badge":3,"sound":"default","thread-id":"orders"},"order":{"id":"4711-0815","state":"arrived"}}"#
        return PushJob(
            notification: .random(), app: slug, lane: .now, pushType: .alert, topic: "com.example.shop", priority: 10,
            collapseID: "order-4711", apnsExpiration: 1_782_300_600, expiresAt: 1_782_300_600_000, acceptedAt: 1_782_214_200_250,
            attempt: 0, onUnknown: .resend, payload: Array(payload.utf8),
            deliveries: (0..<deliveries).compactMap { index in
                DeviceToken(bytes: (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }).map {
                    Delivery(id: .random(), token: $0, environment: .production, installation: .random(), ownerEpoch: Int64(index))
                }
            })
    }

    private static var slug: AppSlug {
        guard let slug = AppSlug("shop") else { preconditionFailure("a good slug") }
        return slug
    }
}
