import PushModel
import TestSupport
import Testing

@Suite("The messages of the control stream")
struct ControlMessageTests {
    private static func messages() throws -> [(file: String, message: ControlMessage)] {
        let installation = PushID(high: 0x9b2d_1c54_0e3f_4a6b, low: 0x8c7d_5e4f_3a2b_1c0d)
        return [
            ("control-fence.v1.json", .fence(app: try Sample.app(), installation: installation, epochsBelow: 8, at: Sample.sentAt)),
            ("control-cancel.v1.json", .cancel(app: try Sample.app(), notification: Sample.notification, at: Sample.sentAt)),
            (
                "control-hold.v1.json",
                .hold(
                    id: PushID(high: 0x0198_0c5e_9a11_7b02, low: 0x8c3d_4e5f_6071_8293), scope: .appLane(try Sample.app(), .bulk),
                    endsAt: Sample.sentAt + 3_600_000, at: Sample.sentAt)
            ),
            ("control-unhold.v1.json", .unhold(id: PushID(high: 0x0198_0c5e_9a11_7b02, low: 0x8c3d_4e5f_6071_8293), at: Sample.sentAt)),
            ("control-marker.v1.json", .marker(id: PushID(high: 0x6f96_19ff_8b86_4011, low: 0xb42d_00c0_4fc9_64ff))),
        ]
    }

    @Test("Each kind has a documented example, which reads as its value and is what is written")
    func matchesTheContract() throws {
        for (name, message) in try Self.messages() {
            let file = try Fixture.bytes(name)
            #expect(try ControlMessage(decoding: file) == message)
            #expect(try String(decoding: message.encoded(), as: UTF8.self) == Fixture.compact(file))
        }
    }

    @Test("Every documented example is read by some test")
    func knowsEveryFile() throws {
        let known =
            try Self.messages().map(\.file)
            + OutcomeClass.allCases.map { "outcome-event.\($0.rawValue.replacing("_", with: "-")).v1.json" } + [
                "credential-report.v1.json", "channel-command.v1.json", "channel-answer.v1.json", "channel-answer.list.v1.json",
                "push-job.v1.binpb", "push-job.v1.json",
            ]
        #expect(try Fixture.names() == known.sorted())
    }

    @Test("The decoder passes an unknown kind on as unknown, with any fields")
    func toleratesUnknownKinds() throws {
        let message = try ControlMessage(decoding: Array(#"{"v":1,"kind":"slow_down","app":5,"at_ms":"soon"}"#.utf8))
        #expect(message == .other(kind: "slow_down"))
        #expect(try ControlMessage(decoding: message.encoded()) == message)
    }

    @Test("The decoder ignores added fields")
    func toleratesUnknownFields() throws {
        let text = #"{"reason":"logout","v":1,"id":"6f9619ff-8b86-4011-b42d-00c04fc964ff","kind":"marker"}"#
        #expect(try ControlMessage(decoding: Array(text.utf8)) == Self.messages().last?.message)
    }

    @Test(
        "A decoding error names the fault",
        arguments: [
            ("", MessageError.Code.malformed), ("[]", .invalidField("v")), (#"{"kind":"marker"}"#, .invalidField("v")),
            (#"{"v":0,"kind":"marker"}"#, .invalidField("v")),
            (#"{"v":2,"kind":5}"#, .unsupportedVersion(2)), (#"{"v":1}"#, .invalidField("kind")),
            (#"{"v":1,"kind":"marker","id":"x"}"#, .invalidField("id")),
            (#"{"v":1,"kind":"cancel","app":"A","notification":"6f9619ff-8b86-4011-b42d-00c04fc964ff","at_ms":1}"#, .invalidField("app")),
            (
                #"{"v":1,"kind":"cancel","app":"a","notification":"6f9619ff-8b86-4011-b42d-00c04fc964ff","at_ms":1.5}"#,
                .invalidField("at_ms")
            ),
            (#"{"v":1,"kind":"hold","id":"6f9619ff-8b86-4011-b42d-00c04fc964ff","lane":"slow","at_ms":1}"#, .invalidField("lane")),
            (
                #"""
                {"v":1,"kind":"hold","id":"6f9619ff-8b86-4011-b42d-00c04fc964ff","notification":"6f9619ff-8b86-4011-b42d-00c04fc964ff",\#
                "at_ms":1}
                """#,
                .invalidField("notification")
            ),
            (
                #"{"v":1,"kind":"fence","app":"a","installation":"6f9619ff-8b86-4011-b42d-00c04fc964ff","at_ms":1}"#,
                .invalidField("epochs_below")
            ),
        ])
    func namesTheFault(_ text: String, _ code: MessageError.Code) throws {
        let error = try #require(throws: MessageError.self) { try ControlMessage(decoding: Array(text.utf8)) }
        #expect(error.code == code)
    }

    @Test("A hold of any scope is read as it was written")
    func readsEveryScope() throws {
        let app = try Sample.app()
        for scope in [HoldScope.everything, .lane(.now), .app(app), .appLane(app, .soon), .notification(app, Sample.notification)] {
            for endsAt in [nil, Sample.sentAt] {
                let message = ControlMessage.hold(id: Sample.notification, scope: scope, endsAt: endsAt, at: Sample.sentAt)
                #expect(try ControlMessage(decoding: message.encoded()) == message)
            }
        }
    }

    @Test("Damaged bytes are read or refused, and never stop the process", arguments: [UInt64.random(in: 0 ... .max)])
    func survivesDamage(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let good = try Self.messages()[0].message.encoded()
        var refused = 0
        for _ in 0..<20_000 {
            do {
                let message = try ControlMessage(decoding: random.damage(good))
                #expect(try ControlMessage(decoding: message.encoded()) == message, "seed \(seed): what was read must be writable")
            } catch {
                refused += 1
            }
        }
        #expect(refused > 0 && refused < 20_000, "seed \(seed): the damage was meant to be sometimes harmless, \(refused)")
    }
}
