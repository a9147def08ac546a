import FoundationEssentials
import StrictJSON
import SwiftProtobuf
import TestSupport
import Testing

@testable import PushModel

@Suite("The form of a job on the wire")
struct PushJobTests {
    @Test("The documented bytes are the documented job, both ways")
    func matchesTheContract() throws {
        let bytes = try Fixture.bytes("push-job.v1.binpb")
        #expect(try PushJob(decoding: bytes) == Sample.job())
        #expect(try Sample.job().encoded() == bytes)
    }

    @Test("The readable form of a job is the documented one")
    func matchesTheReadableForm() throws {
        #expect(try Sample.job().jsonDescription(includingTokens: true) == Fixture.compact(Fixture.bytes("push-job.v1.json")))
    }

    @Test("The default readable form holds no whole token and no payload")
    func describesWithoutSecrets() throws {
        let job = try Sample.job()
        let description = job.jsonDescription()
        for delivery in job.deliveries {
            #expect(!description.contains(delivery.token.hex))
            #expect(description.contains(delivery.token.hint))
        }
        #expect(!description.contains("Paket"))
        let value = try JSONValue.parse(Array(description.utf8))
        #expect(value["payload_bytes"]?.integerValue == Int64(job.payload.count))
        #expect(value["deliveries"]?[1]?["environment"]?.stringValue == "sandbox")
    }

    @Test("A payload that is not JSON is shown as text")
    func describesBrokenPayloads() throws {
        var job = try Sample.job()
        job.payload = Array("{broken".utf8)
        #expect(try JSONValue.parse(Array(job.jsonDescription(includingTokens: true).utf8))["payload"]?.stringValue == "{broken")
    }

    @Test("Optional fields that are nil come back nil, not zero or empty", arguments: [nil, "", "x"], [nil, 0, 1_782_300_600] as [Int64?])
    func keepsNil(collapseID: String?, expiration: Int64?) throws {
        var job = try Sample.job()
        job.collapseID = collapseID
        job.apnsExpiration = expiration
        #expect(try PushJob(decoding: job.encoded()) == job)
    }

    @Test("Every lane, type and policy survives", arguments: Lane.allCases, PushType.allCases)
    func keepsWords(lane: Lane, type: PushType) throws {
        var job = try Sample.job()
        (job.lane, job.pushType) = (lane, type)
        for policy in PushJob.OnUnknown.allCases {
            job.onUnknown = policy
            #expect(try PushJob(decoding: job.encoded()) == job)
        }
    }

    @Test("A decoder that has read other jobs, good and bad, reads each as if it were the first")
    func remembersNothingWrong() throws {
        var decoder = PushJobDecoder()
        var jobs: [PushJob] = []
        for (app, topic, type) in [("shop", "com.example.shop", PushType.alert), ("shoq", "com.example.shop", .voip), ("s", "com", .alert)]
        {
            var job = try Sample.job()
            job.app = try #require(AppSlug(app))
            (job.topic, job.pushType) = (topic, type)
            jobs.append(job)
        }
        for index in 0..<60 {
            let job = jobs[index * 7 % 5 % 3]
            var bytes = job.encoded()
            #expect(try decoder.decode(bytes) == job)
            // A topic that is not text, a missing topic, and an invalid app. The decoder refuses them and keeps nothing of them.
            let place = try #require(bytes.firstRange(of: Array(job.topic.utf8)))
            bytes[place.lowerBound] = 0xff
            #expect(throws: MessageError.self) { try decoder.decode(bytes) }
            var nameless = job
            nameless.topic = ""
            #expect(throws: MessageError(.invalidField("topic"), "missing")) { try decoder.decode(nameless.encoded()) }
            bytes = job.encoded()
            let app = try #require(bytes.firstRange(of: Array(job.app.text.utf8)))
            bytes[app.lowerBound] = UInt8(ascii: "9")
            #expect(throws: MessageError.self) { try decoder.decode(bytes) }
            #expect(throws: MessageError.self) { try decoder.decode([]) }
        }
    }

    @Test("A full job with the longest tokens survives, and one delivery more is refused")
    func limitsDeliveries() throws {
        var job = try Sample.job()
        let token = try #require(DeviceToken(bytes: Array(repeating: 0xff, count: DeviceToken.maximumBytes)))
        job.payload = Array(repeating: UInt8(ascii: " "), count: 5120)
        job.deliveries = (0..<PushJob.maximumDeliveries).map { _ in
            PushJob.Delivery(id: .random(), token: token, environment: .production, installation: .random(), ownerEpoch: .max)
        }
        #expect(try PushJob(decoding: job.encoded()) == job)
        #expect(job.encoded().count < PushJob.maximumBytes / 10)
        job.deliveries.append(job.deliveries[0])
        #expect(throws: MessageError(.invalidField("deliveries"), "more than 100")) { try PushJob(decoding: job.encoded()) }
    }

    private static func broadcast() throws -> PushJob {
        var job = try Sample.job()
        let channel = try #require(ChannelID("dHN0LXNyY2gtY2hubA=="))
        job.isBroadcast = true
        job.deliveries = [
            PushJob.Delivery(id: .random(), token: channel.asToken, environment: .production, installation: .zero, ownerEpoch: 1)
        ]
        return job
    }

    @Test("A broadcast survives, wherever its field stands, and shows its channel") func keepsBroadcasts() throws {
        let job = try Self.broadcast()
        #expect(try PushJob(decoding: job.encoded()) == job)
        // SwiftProtobuf writes the field after the deliveries.
        let bytes: [UInt8] = try WireJob(serializedBytes: job.encoded()).serializedBytes()
        #expect(bytes != job.encoded())
        #expect(try PushJob(decoding: bytes) == job)
        let description = try JSONValue.parse(Array(job.jsonDescription().utf8))
        #expect(description["broadcast"]?.boolValue == true)
        #expect(description["deliveries"]?[0]?["channel_id"]?.stringValue == "dHN0LXNyY2gtY2hubA==")
    }

    @Test(
        "A job that sends an update again names the update, wherever that stands, and any other job names none",
        arguments: [(0x0102_0304_0506_0708, 0xf1f2_f3f4_f5f6_f7f8), (0, 7), (7, 0)] as [(UInt64, UInt64)])
    func keepsOriginals(high: UInt64, low: UInt64) throws {
        var job = try Sample.job()
        #expect(try PushJob(decoding: job.encoded()).original == nil)
        #expect(try JSONValue.parse(Array(job.jsonDescription().utf8))["original"] == nil)
        let original = PushID(high: high, low: low)
        job.original = original
        let bytes = job.encoded()
        #expect(try PushJob(decoding: bytes) == job)
        let wire = try WireJob(serializedBytes: bytes)
        #expect((wire.originalHigh, wire.originalLow) == (high, low))
        // SwiftProtobuf writes the fields after the deliveries.
        let others: [UInt8] = try wire.serializedBytes()
        #expect(others != bytes)
        #expect(try PushJob(decoding: others) == job)
        #expect(try JSONValue.parse(Array(job.jsonDescription().utf8))["original"]?.stringValue == original.description)
    }

    @Test("The original has the documented numbers on the wire") func numbersOfTheOriginal() throws {
        var job = try Sample.job()
        let plain = job.encoded()
        job.original = PushID(high: 0x0102_0304_0506_0708, low: 0xf1f2_f3f4_f5f6_f7f8)
        // Fields 18 and 19 of eight bytes, the least significant first: protobuf.dev, Encoding.
        let fields: [UInt8] = [0x91, 0x01, 8, 7, 6, 5, 4, 3, 2, 1, 0x99, 0x01, 0xf8, 0xf7, 0xf6, 0xf5, 0xf4, 0xf3, 0xf2, 0xf1]
        #expect(try PushJob(decoding: plain + fields) == job)
        #expect(job.encoded().count == plain.count + fields.count && job.encoded().firstRange(of: fields) != nil)
    }

    @Test("A delivery for no installation is refused in any other job, as by a reader that does not know broadcasts")
    func refusesChannelsAsDevices() throws {
        var job = try Self.broadcast()
        job.isBroadcast = false
        let error = try #require(throws: MessageError.self) { try PushJob(decoding: job.encoded()) }
        #expect(error.code == .invalidField("deliveries.installation"))
    }

    @Test("The decoder ignores a newer program's extra fields")
    func toleratesUnknownFields() throws {
        // Field 99, a varint, and field 100, four bytes of text.
        let extra: [UInt8] = [0x98, 0x06, 0x2a, 0xa2, 0x06, 0x04] + Array("more".utf8)
        #expect(try PushJob(decoding: Sample.job().encoded() + extra) == Sample.job())
    }

    @Test("The decoder refuses a greater version by its number, whatever else changed")
    func refusesGreaterVersions() throws {
        var message = try WireJob(serializedBytes: Sample.job().encoded())
        message.v = 2
        message.lane = .UNRECOGNIZED(77)
        message.deliveries = []
        let bytes: [UInt8] = try message.serializedBytes()
        let error = try #require(throws: MessageError.self) { try PushJob(decoding: bytes) }
        #expect(error.code == .unsupportedVersion(2))
    }

    private static let faults: [(String, @Sendable (inout WireJob) -> Void)] = [
        ("v", { $0.v = 0 }), ("v", { $0.v = -1 }), ("v", { $0.v = .max }),
        ("notification", { ($0.notificationHigh, $0.notificationLow) = (0, 0) }),
        ("app", { $0.app = "" }), ("app", { $0.app = "Not.A.Slug" }), ("lane", { $0.lane = .unspecified }),
        ("lane", { $0.lane = .UNRECOGNIZED(9) }),
        ("push_type", { $0.pushType = "telegram" }), ("topic", { $0.topic = "" }), ("priority", { $0.priority = 0 }),
        ("priority", { $0.priority = 11 }),
        ("attempt", { $0.attempt = -1 }), ("on_unknown", { $0.onUnknown = .unspecified }), ("payload", { $0.payload = Data() }),
        ("deliveries.id", { ($0.deliveries[0].idHigh, $0.deliveries[0].idLow) = (0, 0) }),
        ("deliveries.token", { $0.deliveries[1].token = Data() }),
        ("deliveries.token", { $0.deliveries[0].token = Data(repeating: 1, count: 257) }),
        ("deliveries.environment", { $0.deliveries[0].environment = .UNRECOGNIZED(3) }),
        ("deliveries.installation", { ($0.deliveries[0].installationHigh, $0.deliveries[0].installationLow) = (0, 0) }),
    ]

    @Test("A field that is missing or wrong is named", arguments: faults.indices)
    func namesTheField(_ index: Int) throws {
        let (field, spoil) = Self.faults[index]
        var message = try WireJob(serializedBytes: Sample.job().encoded())
        spoil(&message)
        let bytes: [UInt8] = try message.serializedBytes()
        let error = try #require(throws: MessageError.self) { try PushJob(decoding: bytes) }
        #expect(error.code == .invalidField(field))
    }

    @Test("Bytes that are no job are refused as such")
    func refusesOtherBytes() throws {
        let whole = try Sample.job().encoded()
        for bytes in [
            Array("{}".utf8), Array(whole.dropLast()), Array(repeating: 0xff, count: 100),
            Array(repeating: 0, count: PushJob.maximumBytes + 1),
        ] {
            let error = try #require(throws: MessageError.self) { try PushJob(decoding: bytes) }
            #expect(error.code == .malformed)
        }
        let nothing = try #require(throws: MessageError.self) { try PushJob(decoding: []) }
        #expect(nothing.code == .invalidField("v"))
    }

    @Test("Damaged bytes are read or refused, and never stop the process", arguments: [UInt64.random(in: 0 ... .max)])
    func survivesDamage(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let good = try Sample.job().encoded()
        var refused = 0
        for _ in 0..<20_000 {
            do {
                let job = try PushJob(decoding: random.damage(good))
                #expect(try PushJob(decoding: job.encoded()) == job, "seed \(seed): what was read must be writable")
            } catch {
                refused += 1
            }
        }
        #expect(refused > 0 && refused < 20_000, "seed \(seed): the damage was meant to be sometimes harmless, \(refused)")
    }

    @Test("Any bytes are read as SwiftProtobuf reads them, or refused where it refuses them", arguments: [UInt64.random(in: 0 ... .max)])
    func readsAsTheLibrary(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        // Field 99: a group that holds a varint and a group; field 1 once more, as eight bytes instead of a varint.
        let strange: [UInt8] = [0x9b, 0x06, 0x08, 0x01, 0xa3, 0x06, 0xa4, 0x06, 0x9c, 0x06, 0x09, 1, 2, 3, 4, 5, 6, 7, 8]
        let good = try Sample.job().encoded() + strange
        #expect(try PushJob(decoding: good) == Sample.job())
        var read = 0
        for _ in 0..<20_000 {
            let bytes = random.damage(good)
            let ours = Result { try PushJob(decoding: bytes) }
            // The library's output has every known field once and nothing else.
            guard let plain: [UInt8] = (try? WireJob(serializedBytes: bytes)).flatMap({ try? $0.serializedBytes() }) else {
                #expect(throws: MessageError(.malformed, "not a Protocol Buffers message of a job"), "seed \(seed)") { try ours.get() }
                continue
            }
            read += 1
            let theirs = Result { try PushJob(decoding: plain) }
            #expect((try? ours.get()) == (try? theirs.get()), "seed \(seed): \(bytes)")
            if case .failure(let left) = ours, case .failure(let right) = theirs {
                #expect(left as? MessageError == right as? MessageError, "seed \(seed): \(bytes)")
            }
        }
        #expect(read > 0, "seed \(seed)")
    }
}
