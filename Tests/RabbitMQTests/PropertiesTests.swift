import TestSupport
import Testing

@testable import RabbitMQ

@Suite("The properties of a received message")
struct PropertiesTests {
    /// Flags, content type "a/b", headers, delivery mode 2, message id "id-1".
    private static func encode(headers: [UInt8]) -> [UInt8] {
        let flags: UInt16 = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 7
        let count = UInt32(headers.count)
        return [UInt8(flags >> 8), UInt8(flags & 0xff), 3] + Array("a/b".utf8)
            + [UInt8(count >> 24), UInt8(count >> 16 & 0xff), UInt8(count >> 8 & 0xff), UInt8(count & 0xff)] + headers
            + [2, 4] + Array("id-1".utf8)
    }

    private static func entry(_ name: String, _ value: [UInt8]) -> [UInt8] { [UInt8(name.utf8.count)] + Array(name.utf8) + value }

    /// One value of every kind that RabbitMQ sends, with a table and an array to skip.
    private static let everyKind: [(String, [UInt8], RabbitMQValue)] = [
        ("truth", Array("t".utf8) + [1], .boolean(true)),
        ("byte", Array("b".utf8) + [0xfe], .integer(-2)),
        ("ubyte", Array("B".utf8) + [0xfe], .integer(254)),
        ("short", Array("s".utf8) + [0xff, 0xfd], .integer(-3)),
        ("ushort", Array("u".utf8) + [0xff, 0xfd], .integer(65_533)),
        ("int", Array("I".utf8) + [0xff, 0xff, 0xff, 0xfc], .integer(-4)),
        ("uint", Array("i".utf8) + [0xff, 0xff, 0xff, 0xfc], .integer(4_294_967_292)),
        ("long", Array("l".utf8) + [0, 0, 0, 1, 0, 0, 0, 2], .integer(1 << 32 | 2)),
        ("time", Array("T".utf8) + [0, 0, 0, 0, 0, 0, 0, 9], .integer(9)),
        ("float", Array("f".utf8) + [0x3f, 0x80, 0, 0], .double(1)),
        ("double", Array("d".utf8) + [0xbf, 0xf0, 0, 0, 0, 0, 0, 0], .double(-1)),
        ("decimal", Array("D".utf8) + [2, 0, 0, 0, 1], .other),
        ("void", Array("V".utf8), .other),
        ("text", Array("S".utf8) + [0, 0, 0, 2] + Array("hé".utf8.prefix(2)), .string("h\u{fffd}")),
        ("bytes", Array("x".utf8) + [0, 0, 0, 1, 0x41], .string("A")),
        ("table", Array("F".utf8) + [0, 0, 0, 3, 1, 0x61, 0x56], .other),
        ("array", Array("A".utf8) + [0, 0, 0, 2, 0x74, 1], .other),
        ("last", Array("S".utf8) + [0, 0, 0, 3] + Array("end".utf8), .string("end")),
    ]

    @Test("The properties read every kind of header") func headerKinds() {
        let properties = RabbitMQProperties(encoded: Self.encode(headers: Self.everyKind.flatMap { Self.entry($0.0, $0.1) }))
        for (name, _, value) in Self.everyKind { #expect(properties.header(name) == value, "\(name)") }
        #expect(properties.headers == Dictionary(uniqueKeysWithValues: Self.everyKind.map { ($0.0, $0.2) }))
        #expect(properties.header("absent") == nil)
        #expect(properties.contentType == "a/b")
        #expect(properties.messageID == "id-1")
    }

    @Test("The properties are empty if the publisher gave none") func emptyProperties() {
        let properties = RabbitMQProperties(encoded: [0, 0])
        #expect(properties.contentType.isEmpty)
        #expect(properties.messageID.isEmpty)
        #expect(properties.headers.isEmpty)
        #expect(properties.header("x") == nil)
    }

    @Test("The properties survive any truncation and any damage") func damagedBytes() {
        let whole = Self.encode(headers: Self.everyKind.flatMap { Self.entry($0.0, $0.1) })
        for count in 0..<whole.count {
            let properties = RabbitMQProperties(encoded: Array(whole.prefix(count)))
            #expect(properties.messageID != "id-1")
            _ = properties.headers
        }
        let seed = UInt64.random(in: 1 ... .max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<10_000 {
            var damaged = whole
            for _ in 0...random.next(below: 4) { damaged[random.next(below: damaged.count)] = UInt8(random.next(below: 256)) }
            let properties = RabbitMQProperties(encoded: damaged)
            _ = (properties.headers, properties.messageID, properties.contentType, properties.header("last"))
        }
        print("damage seed \(seed)")
    }
}
