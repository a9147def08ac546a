import PushModel
import StrictJSON
import TestSupport
import Testing

@Suite("The form of an outcome event for its consumers")
struct OutcomeEventTests {
    @Test("Each class has a documented example, which reads as its value and is what is written", arguments: OutcomeClass.allCases)
    func matchesTheContract(_ outcome: OutcomeClass) throws {
        let dashed = String(outcome.rawValue.map { $0 == "_" ? "-" : $0 })
        let file = try Fixture.bytes("outcome-event.\(dashed).v1.json")
        let event = try Sample.event(outcome)
        #expect(try OutcomeEvent(decoding: file) == event)
        #expect(try String(decoding: event.encoded(), as: UTF8.self) == Fixture.compact(file))
        #expect(event.routingKey == "shop.\(outcome.rawValue)")
    }

    @Test("The decoder ignores added attributes and fields, in any order")
    func toleratesUnknownFields() throws {
        let text = #"""
            {"data":{"deliveries":[],"extra":[1,{"x":null}],"final":true,"class":"accepted","app":"shop","v":1},"subject":"x",\#
            "traceparent":"y",
             "time":"2026-06-23T13:30:01.1256+02:00","type":"push.delivery.outcome.v1","source":"/push/dispatcher/dispatcher-0",
             "id":"01980C5E-9A11-7B02-8C3D-4E5F60718293","specversion":"1.0"}
            """#
        var expected = try Sample.event(.accepted)
        expected.deliveries = []
        #expect(try OutcomeEvent(decoding: Array(text.utf8)) == expected)
    }

    @Test("The owner's epoch survives, and is left out where there is none", arguments: [nil, 0, 7, Int64.max] as [Int64?])
    func keepsTheOwnerEpoch(_ epoch: Int64?) throws {
        var event = try Sample.event(.accepted)
        event.deliveries[0].ownerEpoch = epoch
        event.deliveries[1].ownerEpoch = nil
        #expect(try OutcomeEvent(decoding: event.encoded()) == event)
        let text = String(decoding: event.encoded(), as: UTF8.self)
        #expect(text.contains("owner_epoch") == (epoch != nil))
        let withNull = text.replacing(#""attempt":2"#, with: #""attempt":2,"owner_epoch":null"#)
        #expect(withNull != text)
        #expect(try OutcomeEvent(decoding: Array(withNull.utf8)) == event)
    }

    @Test("An event with as many deliveries as allowed survives, and one more is refused")
    func limitsDeliveries() throws {
        var event = try Sample.event(.accepted)
        event.deliveries = Array(repeating: event.deliveries[0], count: OutcomeEvent.maximumDeliveries)
        #expect(try OutcomeEvent(decoding: event.encoded()) == event)
        event.deliveries.append(event.deliveries[0])
        let error = try #require(throws: MessageError.self) { try OutcomeEvent(decoding: event.encoded()) }
        #expect(error.code == .invalidField("deliveries"))
    }

    @Test(
        "The event keeps Apple's words and replaces characters that a terminal or PostgreSQL cannot take",
        arguments: [("Unregistered", "Unregistered"), ("a\"b\\c\n\u{0}é📦", "a\"b\\c\u{fffd}\u{fffd}é📦"), ("", nil)])
    func keepsReasons(_ reason: String, kept: String?) throws {
        var event = try Sample.event(.rejected)
        event.deliveries[0].reason = reason
        #expect(try OutcomeEvent(decoding: event.encoded()).deliveries.map(\.reason) == [kept])
    }

    @Test(
        "A greater version is refused by its number, also where its fields have other forms",
        arguments: [
            #"{"data":{"v":2,"app":["shop"],"class":7}}"#, #"{"data":{"deliveries":"gone","v":2}}"#,
        ])
    func refusesGreaterVersions(_ text: String) throws {
        let error = try #require(throws: MessageError.self) { try OutcomeEvent(decoding: Array(text.utf8)) }
        #expect(error.code == .unsupportedVersion(2))
    }

    @Test(
        "A field that is missing or wrong is named",
        arguments: [
            (#""specversion":"1.0""#, #""specversion":"0.3""#, "specversion"), (#""id":"0198"#, #""id":"X198"#, "id"),
            (#""source":"#, #""sauce":"#, "source"),
            (#""type":"push.delivery.outcome.v1""#, #""type":"other""#, "type"), ("2026-06-23T", "2026-06-31T", "time"),
            (#""data":"#, #""date":"#, "data"),
            (#""v":1,"#, "", "v"), (#""v":1,"#, #""v":0,"#, "v"), (#""app":"shop""#, #""app":"Shop""#, "app"),
            ("token_gone", "token_lost", "class"),
            (#""final":true,"#, "", "final"), (#""attempt":1"#, #""attempt":-1"#, "attempt"),
            (#""status":410"#, #""status":1000"#, "status"),
            (#""notification":"#, #""notice":"#, "notification"), (#""installation":"9b2d"#, #""installation":"9b2"#, "installation"),
        ])
    func namesTheField(_ old: String, _ new: String, _ field: String) throws {
        let text = try String(decoding: Sample.event(.tokenGone).encoded(), as: UTF8.self)
        let spoilt = text.replacing(old, with: new)
        #expect(spoilt != text)
        let error = try #require(throws: MessageError.self) { try OutcomeEvent(decoding: Array(spoilt.utf8)) }
        #expect(error.code == .invalidField(field), "\(error)")
    }

    @Test("Errors never show the content of the message")
    func hidesContent() throws {
        let text = try String(decoding: Sample.event(.tokenGone).encoded(), as: UTF8.self).replacing(#""v":1"#, with: #""v":"secret""#)
        let error = try #require(throws: MessageError.self) { try OutcomeEvent(decoding: Array(text.utf8)) }
        #expect(error.code == .malformed)
        #expect(!"\(error)".contains("secret"))
    }

    @Test("Damaged bytes are read or refused, and never stop the process", arguments: [UInt64.random(in: 0 ... .max)])
    func survivesDamage(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let good = try Sample.event(.tokenGone).encoded()
        var refused = 0
        for _ in 0..<20_000 {
            do {
                let event = try OutcomeEvent(decoding: random.damage(good))
                #expect(try OutcomeEvent(decoding: event.encoded()) == event, "seed \(seed): what was read must be writable")
            } catch {
                refused += 1
            }
        }
        #expect(refused > 0 && refused < 20_000, "seed \(seed): the damage was meant to be sometimes harmless, \(refused)")
    }
}
