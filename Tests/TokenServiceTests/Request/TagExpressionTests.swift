import PushModel
import TestSupport
import Testing

@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("Tag expressions", .timeLimit(.minutes(5)))
struct TagExpressionTests {
    @Test(
        "NOT binds closest, then AND, then OR, and parentheses before all",
        arguments: [
            ("beta", .tag("beta")),
            (
                "ios-17 AND (beta OR staff) AND NOT muted",
                .all([.tag("ios-17"), .any([.tag("beta"), .tag("staff")]), .not(.tag("muted"))])
            ),
            ("a OR b AND c", .any([.tag("a"), .all([.tag("b"), .tag("c")])])),
            ("a AND b OR c", .any([.all([.tag("a"), .tag("b")]), .tag("c")])),
            ("NOT a AND b", .all([.not(.tag("a")), .tag("b")])),
            ("NOT (a AND b)", .not(.all([.tag("a"), .tag("b")]))),
            ("NOT NOT a", .not(.not(.tag("a")))),
            ("a AND (b AND c)", .all([.tag("a"), .tag("b"), .tag("c")])),
            ("(((a)))OR(b)", .any([.tag("a"), .tag("b")])),
            (#""AND" OR "two words" OR "say \"hi\" \\""#, .any([.tag("AND"), .tag("two words"), .tag(#"say "hi" \"#)])),
            ("and OR größe-ß OR city=köln/zentrum", .any([.tag("and"), .tag("größe-ß"), .tag("city=köln/zentrum")])),
            (" \n\tx ", .tag("x")),
            ("app:beta OR \"app:two words\"", .any([.tag("app:beta"), .tag("app:two words")])),
            ("app:" + String(repeating: "x", count: 64), .tag("app:" + String(repeating: "x", count: 64))),
            (
                #"beta AND NOT permission:denied OR "permission:unknown""#,
                .any([
                    .all([.tag("beta"), .not(.permission(.reported(.denied)))]), .permission(.unknown),
                ])
            ),
            (
                "Permission:denied OR permission OR permissions:denied",
                .any([.tag("Permission:denied"), .tag("permission"), .tag("permissions:denied")])
            ),
        ] as [(String, TagExpression)])
    func parses(text: String, expected: TagExpression) throws {
        let expression = try TagExpression(text)
        #expect(expression == expected)
        #expect(try TagExpression(expression.description) == expected)
    }

    @Test("A fault is reported with its place and what should stand there", arguments: faults)
    func refuses(text: String, position: Int, message: String) {
        let fault = #expect(throws: TagExpression.Fault.self) { try TagExpression(text) }
        #expect(fault?.position == position)
        #expect(fault?.message.hasPrefix(message) == true, "\(fault?.message ?? "nothing")")
    }

    /// So many of the longest tags.
    private static func longest(_ count: Int) -> String {
        (100..<100 + count).map { "\($0)" + String(repeating: "x", count: 61) }.joined(separator: " OR ")
    }

    private static let notted = String(repeating: "NOT ", count: 15) + "a"

    static let faults: [(String, Int, String)] = [
        ("", 1, "unexpected end, where a tag, NOT or '(' is expected"),
        ("ios-17 AND AND beta", 12, "unexpected AND, where a tag, NOT or '(' is expected"),
        ("a b", 3, "unexpected tag, where AND, OR or the end is expected"),
        ("a and b", 3, "unexpected tag, where AND, OR or the end is expected"),
        ("(a OR b", 8, "unexpected end, where AND, OR or ')' is expected"),
        ("a OR b)", 7, "unexpected ')', where AND, OR or the end is expected"),
        ("NOT", 4, "unexpected end, where a tag"),
        ("()", 2, "unexpected ')', where a tag"),
        ("OR a", 1, "unexpected OR, where a tag"),
        ("größe OR OR b", 10, "unexpected OR"),
        ("a AND !muted", 7, "a sign that must stand in quotes"),
        ("a&&b", 2, "a sign that must stand in quotes"),
        ("a,b", 2, "a sign that must stand in quotes"),
        (#"a OR "open"#, 6, "the quote that begins here is never closed"),
        (#""a\n""#, 3, "after a backslash only"),
        (#"a OR """#, 6, "a tag has 1 to 64 bytes"),
        (String(repeating: "é", count: 33), 1, "a tag has 1 to 64 bytes"),
        ("a AND \"\u{0}\"", 7, "a tag has 1 to 64 bytes"), ("a AND \"b\n\"", 7, "a tag has 1 to 64 bytes"),
        ("app:", 1, "a tag has 1 to 64 bytes"),
        ("app:" + String(repeating: "x", count: 65), 1, "a tag has 1 to 64 bytes"),
        ("a OR permission:", 6, "after permission: stands one of not_determined, provisional, denied, authorized, ephemeral, unknown"),
        ("permission:Denied", 1, "after permission: stands one of"),
        (#"NOT "permission: denied""#, 5, "after permission: stands one of"),
        ("permission:\u{301}denied", 1, "after permission: stands one of"),
        ("permission:denied beta", 19, "unexpected tag"),
        ("beta permission:denied", 6, "unexpected permission"),
        (String(repeating: "(", count: 17) + "a", 17, "nested deeper than 16 levels"),
        (String(repeating: "NOT ", count: 17) + "a", 65, "nested deeper than 16 levels"),
        (Array(repeating: "t", count: 101).joined(separator: " OR "), 501, "more than 100 tags"),
        (longest(90), 1, "its tags take 7998 bytes"),
        ("NOT " + Array(repeating: notted, count: 40).joined(separator: " OR NOT "), 1, "its tags take"),
    ]

    @Test("What is printed is read back as the same, whatever the tags hold") func roundTrip() throws {
        var random = SeededGenerator(seed: 4711)
        for _ in 0..<5000 {
            let tree = Self.tree(depth: 4, &random)
            let text = tree.description
            #expect(try TagExpression(text) == tree, "\(text)")
        }
    }

    /// In the parser's normal form: AND within AND, and OR within OR, are one.
    private static func tree(depth: Int, within: Int? = nil, _ random: inout SeededGenerator) -> TagExpression {
        let kinds = depth == 0 ? [0] : [0, 1, 2, 3].filter { $0 != within }
        switch kinds.randomElement(using: &random) {
        case 1: return .not(tree(depth: depth - 1, &random))
        case 2: return .all((0..<Int.random(in: 2...3, using: &random)).map { _ in tree(depth: depth - 1, within: 2, &random) })
        case 3: return .any((0..<Int.random(in: 2...3, using: &random)).map { _ in tree(depth: depth - 1, within: 3, &random) })
        default: return Bool.random(using: &random) ? .tag(tag(&random)) : permission(&random)
        }
    }

    private static func permission(_ random: inout SeededGenerator) -> TagExpression {
        .permission(ReportedPermission.allCases.randomElement(using: &random) ?? .unknown)
    }

    private static func tag(_ random: inout SeededGenerator) -> String {
        let signs = Array("ab-_.:9 éAND OR NOT()\"\\!&|,;'\u{301}\u{1f600}".unicodeScalars)
        var text = ""
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            if let sign = signs.randomElement(using: &random) { text.unicodeScalars.append(sign) }
        }
        return text
    }

    @Test("Whatever bytes come, there is an answer") func neverCrashes() {
        var random = SeededGenerator(seed: 17)
        let words = ["AND", "OR", "NOT", "(", ")", "\"", "\\", " ", "a", "é", "!", "\u{0}"]
        var taken = 0
        for round in 0..<20_000 {
            let text: String
            if round.isMultiple(of: 2) {
                let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
                text = String(decoding: bytes, as: UTF8.self)
            } else {
                text = (0..<Int.random(in: 0...12, using: &random)).compactMap { _ in words.randomElement(using: &random) }.joined(
                    separator: " ")
            }
            do {
                let expression = try TagExpression(text)
                taken += 1
                #expect(try TagExpression(expression.description) == expression, "\(text.debugDescription)")
            } catch {
                #expect((1...text.unicodeScalars.count + 1).contains(error.position), "\(text.debugDescription)")
            }
        }
        #expect(taken > 100)
    }

    @Test("Which tags a match must have one of, and which no index can find", arguments: needed)
    func findsByIndex(text: String, tags: [String]?) throws {
        #expect(try TagExpression(text).neededTags == tags)
    }

    static let needed: [(String, [String]?)] = [
        ("a", ["a"]), ("NOT a", nil), ("a AND NOT b", ["a"]), ("a OR NOT b", nil), ("(a OR b) AND c", ["c"]), ("a OR b AND c", ["a", "b"]),
        ("permission:denied", nil), ("a AND permission:denied", ["a"]), ("a OR permission:denied", nil), ("NOT a AND NOT b", nil),
        ("(a OR NOT b) AND (c OR d)", ["c", "d"]),
    ]
}
