import SwiftProtobuf
import Testing

@testable import PushModel

@Suite("Deliveries that are written without an object for each")
struct EncodedDeliveriesTests {
    @Test("A job with encoded deliveries is byte for byte the library's output", arguments: [1, 2, 31, 32, 100, 127, 128, 256])
    func asTheLibrary(tokenBytes: Int) throws {
        var job = try Sample.job()
        let token = try #require(DeviceToken(bytes: (0..<tokenBytes).map { UInt8(truncatingIfNeeded: $0 + 1) }))
        job.deliveries = []
        for epoch in [0, 1, 127, 128, 300, Int64.max, -1] {
            for trial in PushJob.EnvironmentTrial.allCases {
                for environment in [APNsEnvironment.production, .sandbox] {
                    job.deliveries.append(
                        PushJob.Delivery(
                            id: .random(), token: token, environment: environment, installation: .random(), ownerEpoch: epoch,
                            environmentTrial: trial, earlierOutcome: environment == .sandbox ? .unknown : .failed))
                }
            }
        }
        // The encoder omits zeros.
        for (high, low) in [(0, 7), (7, 0), (0, 0), (0x0102_0304_0506_0708, 0xf1f2_f3f4_f5f6_f7f8)] as [(UInt64, UInt64)] {
            let id = PushID(high: high, low: low)
            job.deliveries.append(PushJob.Delivery(id: id, token: token, environment: .sandbox, installation: id, ownerEpoch: 1))
        }
        let bytes = job.encoded()
        let wire = try WireJob(serializedBytes: bytes)
        let written: [UInt8] = try wire.serializedBytes()
        #expect(written == bytes)
        #expect(wire.deliveries.count == job.deliveries.count)
        for (theirs, ours) in zip(wire.deliveries, job.deliveries) {
            #expect((theirs.idHigh, theirs.idLow) == (ours.id.high, ours.id.low))
            #expect((theirs.installationHigh, theirs.installationLow) == (ours.installation.high, ours.installation.low))
            #expect(Array(theirs.token) == ours.token.bytes && theirs.ownerEpoch == ours.ownerEpoch)
            #expect(theirs.environment == WireEnvironment(ours.environment))
            #expect(theirs.environmentTrial == WireEnvironmentTrial(ours.environmentTrial))
            #expect(theirs.earlierOutcome == WireEarlierOutcome(ours.earlierOutcome))
        }
    }

    @Test("They are read again as they were, up to as many as a job may have")
    func readAgain() throws {
        var job = try Sample.job()
        #expect(try EncodedDeliveries().decoded() == [])
        job.deliveries = (0..<PushJob.maximumDeliveries).map { _ in
            var delivery = job.deliveries[0]
            delivery.id = .random()
            return delivery
        }
        let encoded = EncodedDeliveries(job.deliveries)
        #expect(encoded.count == job.deliveries.count)
        #expect(try encoded.decoded() == job.deliveries)
        var other = job
        other.deliveries = []
        #expect(other.encoded(with: encoded) == job.encoded())
        #expect(throws: MessageError(.invalidField("deliveries"), "more than 100")) {
            try EncodedDeliveries(job.deliveries + job.deliveries).decoded()
        }
    }
}
