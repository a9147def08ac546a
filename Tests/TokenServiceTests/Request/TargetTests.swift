import PushModel
import StrictJSON
import Testing
import TokenServiceSending

@Suite("Whom a notification goes to")
struct TargetTests {
    @Test(
        "Every kind of target is understood, and decides the lane",
        arguments: [
            (#"{"user":"ada"}"#, .user("ada"), .now),
            (#"{"users":["ada","grace"]}"#, .users(["ada", "grace"]), .soon),
            (#"{"installation":"\#(installation(1))"}"#, .installation(installation(1)), .now),
            (#"{"installations":["\#(installation(1))"]}"#, .installations([installation(1)]), .soon),
            (#"{"tokens":["00FF"]}"#, .tokens(["00ff"].compactMap { DeviceToken(hex: $0) }), .soon),
            (#"{"tags":"a AND NOT b"}"#, .tags(.all([.tag("a"), .not(.tag("b"))])), .bulk),
            (#"{"all":true}"#, .all, .bulk), (#"{"all":true,"user":null}"#, .all, .bulk),
        ] as [(String, NotificationRequest.Target, Lane)])
    func understands(text: String, target: NotificationRequest.Target, lane: Lane) throws {
        let parsed = try ParsedRequest(to: text)
        #expect(parsed.problems == [])
        #expect(parsed.request?.target == target)
        #expect(parsed.request?.lane == lane)
    }

    @Test("A target that is named twice is meant once, by bytes and in order") func removesDuplicates() throws {
        #expect(try ParsedRequest(to: #"{"users":["b","a","b"]}"#).request?.target == .users(["b", "a"]))
        // To Unicode these two are the same text, to the database they are not.
        guard case .users(let names) = try ParsedRequest(to: #"{"users":["\u00e9","e\u0301"]}"#).request?.target else {
            Issue.record("no users")
            return
        }
        #expect(names.count == 2)
        #expect(
            try ParsedRequest(to: #"{"tokens":["AB","ab","cd"]}"#).request?.target
                == .tokens(["ab", "cd"].compactMap { DeviceToken(hex: $0) }))
        let id = installation(0xabc).description
        let twice = try ParsedRequest(to: #"{"installations":["\#(id)","\#(id.uppercased())"]}"#)
        #expect(twice.request?.target == .installations([installation(0xabc)]))
    }

    @Test("A wrong target is refused at its place", arguments: faults)
    func refuses(text: String, problems: [String]) throws {
        let parsed = try ParsedRequest(to: text)
        #expect(parsed.problems == problems, "\(text.prefix(80))")
        #expect(parsed.request == nil)
    }

    private static func list(_ key: String, _ count: Int, _ element: (Int) -> String) -> String {
        #"{"\#(key)":[\#((0..<count).map { "\"\(element($0))\"" }.joined(separator: ","))]}"#
    }

    static let faults: [(String, [String])] = [
        ("7", ["/to wrong_type"]), ("{}", ["/to ambiguous_target"]), (#"{"user":null}"#, ["/to ambiguous_target"]),
        (#"{"user":"a","users":["b"]}"#, ["/to ambiguous_target"]), (#"{"all":true,"tags":"a"}"#, ["/to ambiguous_target"]),
        (#"{"segment":"a"}"#, ["/to/segment unknown_field", "/to ambiguous_target"]),
        (#"{"user":""}"#, ["/to/user too_short"]), (#"{"user":"\#(String(repeating: "u", count: 257))"}"#, ["/to/user too_long"]),
        (#"{"users":[]}"#, ["/to/users too_few"]), (#"{"users":"ada"}"#, ["/to/users wrong_type"]),
        (#"{"users":["ada",7,""]}"#, ["/to/users/1 wrong_type", "/to/users/2 too_short"]),
        (list("users", 1001) { "u\($0)" }, ["/to/users too_many"]),
        (#"{"installation":"x"}"#, ["/to/installation invalid_id"]),
        (#"{"installations":["\#(installation(1))","x"]}"#, ["/to/installations/1 invalid_id"]),
        (list("installations", 1001) { _ in installation(1).description }, ["/to/installations too_many"]),
        (#"{"tokens":["abc","ab","xy"]}"#, ["/to/tokens/0 invalid_token", "/to/tokens/2 invalid_token"]),
        (list("tokens", 1001) { _ in "ab" }, ["/to/tokens too_many"]), (#"{"tokens":[]}"#, ["/to/tokens too_few"]),
        (#"{"tags":["a"]}"#, ["/to/tags wrong_type"]), (#"{"tags":"a AND AND b"}"#, ["/to/tags invalid_expression"]),
        (#"{"tags":"\#(String(repeating: "a ", count: 4100))"}"#, ["/to/tags too_long"]),
        (#"{"all":false}"#, ["/to/all unsupported_value"]), (#"{"all":"yes"}"#, ["/to/all wrong_type"]),
    ]

    @Test("A fault in an expression says where and what should stand there") func expressionFault() throws {
        let parsed = try ParsedRequest(to: #"{"tags":"ios-17 AND AND b"}"#)
        #expect(parsed.details == ["at character 12: unexpected AND, where a tag, NOT or '(' is expected"])
    }

    @Test("A thousand of each fit into a body") func fits() throws {
        for text in [
            Self.list("users", 1000) { String(repeating: "u", count: 250) + "\(1000 + $0)" },
            Self.list("tokens", 1000) { String(repeating: "ab", count: 126) + "\(1000 + $0)" },
        ] {
            #expect(text.utf8.count < NotificationRequest.maximumBodyBytes)
            #expect(try ParsedRequest(to: text).problems == [])
        }
    }

    // MARK: Lanes

    @Test("A background push may not use the lane `now`") func background() throws {
        let content = #"{"content_available":true}"#
        #expect(try ParsedRequest(content: content).request?.lane == .soon)
        #expect(try ParsedRequest(content: content, more: #","lane":"bulk""#).request?.lane == .bulk)
        #expect(try ParsedRequest(content: content, more: #","lane":"now""#).problems == ["/lane not_allowed"])
    }

    @Test(
        "Only a faster lane than the target's own is special",
        arguments: [
            (#"{"user":"a"}"#, "now", false), (#"{"user":"a"}"#, "bulk", false), (#"{"users":["a"]}"#, "now", true),
            (#"{"users":["a"]}"#, "soon", false), (#"{"all":true}"#, "soon", true), (#"{"tags":"a"}"#, "bulk", false),
        ])
    func faster(target: String, lane: String, isFaster: Bool) throws {
        let request = try ParsedRequest(#"{"to":\#(target),"content":{"alert":"a"},"lane":"\#(lane)"}"#).request
        #expect(request?.lane.rawValue == lane)
        #expect(request?.isLaneFaster == isFaster)
    }

    @Test(
        "Only what goes to one user or installation supersedes",
        arguments: [
            (#"{"user":"a"}"#, []), (#"{"installation":"\#(PushID.random())"}"#, []), (#"{"users":["a"]}"#, ["/supersede_key not_allowed"]),
            (#"{"all":true}"#, ["/supersede_key not_allowed"]),
        ])
    func supersedes(target: String, problems: [String]) throws {
        let parsed = try ParsedRequest(#"{"to":\#(target),"content":{"alert":"a"},"supersede_key":"eta"}"#)
        #expect(parsed.problems == problems)
        if problems.isEmpty { #expect(parsed.request?.supersedeKey == "eta") }
    }

    @Test("Without an answer a push is handled by what a second copy would do, unless the sender says it", arguments: PushType.allCases)
    func onUnknown(type: PushType) throws {
        let expected: PushJob.OnUnknown =
            switch type {
            case .voip, .pushtotalk: .resendOnce
            default: .resend
            }
        let content =
            switch type {
            case .liveactivity: #"{"event":"update","content_state":{}}"#
            case .background: #"{"content_available":true}"#
            case .controls, .widgets: #"{"content_changed":true}"#
            case .alert: #"{"alert":"a"}"#
            default: #"{"custom":{"a":1}}"#
            }
        let body =
            switch type {
            case .fileprovider: #""payload":{"container-identifier":"a"}"#
            case .mdm: #""payload":{"mdm":"a"}"#
            default: #""content":\#(content)"#
            }
        for (word, wanted) in [(nil, expected)] + PushJob.OnUnknown.allCases.map({ (Optional($0.rawValue), $0) }) {
            let stated = word.map { #","on_unknown":"\#($0)""# } ?? ""
            let parsed = try ParsedRequest(#"{"to":{"user":"ada"},\#(body),"push_type":"\#(type.rawValue)"\#(stated)}"#)
            #expect(parsed.problems == [] && parsed.request?.onUnknown == wanted, "\(parsed.problems)")
        }
    }

    @Test("A Live Activity's start is not sent twice: two would show", arguments: [("start", PushJob.OnUnknown.drop), ("end", .resend)])
    func onUnknownOfActivities(event: String, expected: PushJob.OnUnknown) throws {
        let start = #","attributes_type":"Ride","attributes":{},"alert":{"title":"a","body":"b"}"#
        let content = #"{"event":"\#(event)","content_state":{}\#(event == "start" ? start : "")}"#
        let parsed = try ParsedRequest(content: content)
        #expect(parsed.problems == [] && parsed.request?.onUnknown == expected, "\(parsed.problems)")
        let variant = try ParsedRequest(content: content, more: #","locales":{"de":{"content":\#(content)}}"#)
        #expect(variant.problems == [] && variant.request?.onUnknown == expected, "\(variant.problems)")
    }

    @Test(
        "What is wrong beside target, time and content",
        arguments: [
            (#""supersede_key":"""#, "/supersede_key too_short"),
            (#""supersede_key":"\#(String(repeating: "k", count: 65))""#, "/supersede_key too_long"),
            (#""supersede_key":"a\tb""#, "/supersede_key invalid_character"), (#""supersede_key":7"#, "/supersede_key wrong_type"),
            (#""receipts":"none""#, "/receipts unsupported_value"), (#""urgent":1"#, "/urgent wrong_type"),
            (#""on_unknown":"x""#, "/on_unknown unsupported_value"), (#""lane":"fast""#, "/lane unsupported_value"),
            (#""priority":0"#, "/priority unsupported_value"), (#""priority":"5""#, "/priority wrong_type"),
            (#""collapse_id":"\#(String(repeating: "é", count: 33))""#, "/collapse_id too_long"),
            // What can be no header is refused now, instead of being lost later.
            (#""collapse_id":" a""#, "/collapse_id invalid_character"), (#""collapse_id":"a ""#, "/collapse_id invalid_character"),
            (#""collapse_id":" ""#, "/collapse_id invalid_character"), (#""collapse_id":"a\t""#, "/collapse_id invalid_character"),
            (#""extra":1"#, "/extra unknown_field"),
        ])
    func refusesTheRest(more: String, problem: String) throws { #expect(try ParsedRequest(alert: more).problems == [problem]) }

    @Test("Blanks are part of a name wherever they can travel") func blanks() throws {
        let parsed = try ParsedRequest(alert: #""collapse_id":"\u00a0a b\u3000","supersede_key":" a ""#)
        #expect(parsed.problems == [])
        #expect(parsed.request?.collapseID == "\u{a0}a b\u{3000}")
        #expect(parsed.request?.supersedeKey == " a ")
    }

    @Test("What may be said may also be null") func nulls() throws {
        let parsed = try ParsedRequest(
            alert: #""urgent":null,"supersede_key":null,"receipts":null,"locales":null,"payload":null,"lane":null"#)
        #expect(parsed.problems == [])
        #expect(parsed.request?.receipts == nil && parsed.request?.supersedeKey == nil)
        #expect(try ParsedRequest(alert: #""receipts":"failures","urgent":true"#).request?.receipts == .failures)
    }
}
