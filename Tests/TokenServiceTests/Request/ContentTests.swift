import PushModel
import StrictJSON
import Testing
import TokenServiceSending

@Suite("What typed content becomes")
struct ContentTests {
    @Test("Every field goes where Apple has it", arguments: rendered)
    func renders(content: String, type: PushType, payload: String) throws {
        let parsed = try ParsedRequest(content: content)
        #expect(parsed.problems == [])
        #expect(parsed.request?.pushType == type)
        #expect(parsed.payload == payload)
    }

    static let rendered: [(String, PushType, String)] = [
        (#"{"alert":"hello"}"#, .alert, #"{"aps":{"alert":"hello"}}"#),
        (#"{"badge":0}"#, .alert, #"{"aps":{"badge":0}}"#),
        (
            #"""
            {"alert":{"title":"T","subtitle":"S","body":"Gr\u00fc\u00dfe\/\n","launch_image":"L","title_loc_key":"TK",\#
            "title_loc_args":["1"],
            "subtitle_loc_key":"SK","subtitle_loc_args":[],"loc_key":"K","loc_args":["x","y"]},"badge":3,"sound":"a.caf","category":"C",
            "thread_id":"t","interruption_level":"time-sensitive","relevance_score":0.50,"filter_criteria":"f","target_content_id":"w",
            "mutable_content":true,"content_available":true,"custom":{"order":{"id":12345678901234567890,"x":1e3},"n":[true,false]}}
            """#, .alert,
            #"""
            {"aps":{"alert":{"title":"T","subtitle":"S","body":"Grüße/\n","launch-image":"L","title-loc-key":"TK","title-loc-args":["1"],
            """#
                + #"""
                "subtitle-loc-key":"SK","subtitle-loc-args":[],"loc-key":"K","loc-args":["x","y"]},"badge":3,"sound":"a.caf",\#
                "category":"C",
                """#
                    + #"""
                    "thread-id":"t","interruption-level":"time-sensitive","relevance-score":0.50,"filter-criteria":"f",\#
                    "target-content-id":"w",
                    """#
                + #""content-available":1,"mutable-content":1},"order":{"id":12345678901234567890,"x":1e3},"n":[true,false]}"#
        ),
        (
            #"{"alert":"a","sound":{"name":"default","critical":true,"volume":0.8},"mutable_content":false}"#, .alert,
            #"{"aps":{"alert":"a","sound":{"critical":1,"name":"default","volume":0.8}}}"#
        ),
        (#"{"content_available":true,"custom":{"sync":"orders"}}"#, .background, #"{"aps":{"content-available":1},"sync":"orders"}"#),
        (
            #"""
            {"event":"update","content_state":{"eta_minutes":3},"timestamp":"2026-11-21T12:00:01.9Z","stale_date":"2026-11-21T13:00:00Z"}
            """#,
            .liveactivity,
            #"{"aps":{"event":"update","content-state":{"eta_minutes":3},"timestamp":1795262401,"stale-date":1795266000}}"#
        ),
        // Where no timestamp is stated, it is the moment at which it is due.
        (
            #"{"event":"update","content_state":{}}"#, .liveactivity,
            #"{"aps":{"timestamp":1795262400,"event":"update","content-state":{}}}"#
        ),
        (
            #"""
            {"event":"start","attributes_type":"Ride","attributes":{"id":"4711"},"content_state":{},"input_push_token":true,
            "alert":{"title_loc_key":"TK","title_loc_args":["a"],"body":"b"},"sound":"ring.caf"}
            """#, .liveactivity,
            #"""
            {"aps":{"timestamp":1795262400,"alert":{"title":{"loc-key":"TK","loc-args":["a"]},"body":"b","sound":"ring.caf"},\#
            "event":"start",
            """#
                + #""content-state":{},"attributes-type":"Ride","attributes":{"id":"4711"},"input-push-token":1}}"#
        ),
        (
            #"{"event":"end","content_state":{},"dismissal_date":"2026-11-21T13:00:00Z","alert":"over","sound":"s"}"#, .liveactivity,
            #"""
            {"aps":{"timestamp":1795262400,"alert":{"body":"over","sound":"s"},"event":"end","content-state":{},\#
            "dismissal-date":1795266000}}
            """#
        ),
        (
            #"{"event":"update","content_state":{},"alert":"x","sound":{"name":"n","critical":true,"volume":1}}"#, .liveactivity,
            #"{"aps":{"timestamp":1795262400,"alert":{"body":"x","sound":{"critical":1,"name":"n","volume":1}},"event":"update","#
                + #""content-state":{}}}"#
        ),
    ]

    @Test(
        "A Live Activity's time of sending is when it is first due, and never before it was asked for",
        arguments: [
            // 13:56 came to UTC+14 twelve hours ago.
            (#""local_time":"2026-11-21T13:56""#, ParsedRequest.now), (#""local_time":"2026-11-22T02:00""#, ParsedRequest.now),
            (#""local_time":"2026-11-22T03:00""#, ParsedRequest.now + ParsedRequest.hour),
            (#""not_before":"2026-11-21T13:00:00Z""#, ParsedRequest.now + ParsedRequest.hour),
        ])
    func sendingTime(when: String, milliseconds: Int64) throws {
        let content = #"{"event":"start","attributes_type":"A","attributes":{},"content_state":{},"alert":"a"}"#
        let parsed = try ParsedRequest(content: content, more: #",\#(when),"locales":{"de":{"content":\#(content)}}"#)
        #expect(parsed.problems == [])
        for payload in [parsed.payload, parsed.request.map { String(decoding: $0.content.variant(for: "de"), as: UTF8.self) }] {
            let timestamp = try payload.flatMap { try JSONValue.parse(Array($0.utf8))["aps"]?["timestamp"]?.integerValue }
            #expect(timestamp == milliseconds / 1000)
        }
    }

    @Test("Fields of the wrong form are refused in the sender's own words", arguments: faults)
    func refuses(content: String, problems: [String]) throws {
        let parsed = try ParsedRequest(content: content)
        #expect(parsed.problems == problems, "\(content.prefix(100))")
        #expect(parsed.request == nil)
    }

    static let faults: [(String, [String])] = [
        (#""hello""#, ["/content wrong_type"]), ("{}", ["/push_type ambiguous_push_type"]),
        (#"{"alert":"a","thread-id":"t"}"#, ["/content/thread-id unknown_field"]),
        (#"{"alert":{"title":"t","titel":"x"}}"#, ["/content/alert/titel unknown_field"]),
        (#"{"alert":7}"#, ["/content/alert wrong_type"]), (#"{"alert":{}}"#, ["/content/alert missing"]),
        (#"{"alert":""}"#, ["/content/alert missing"]), (#"{"alert":{"launch_image":"x"}}"#, ["/content/alert missing"]),
        (#"{"alert":{"title":""}}"#, ["/content/alert missing"]),
        (#"{"alert":{"title":"","subtitle":"","body":"","loc_key":""}}"#, ["/content/alert missing"]),
        (#"{"alert":{"title":""},"badge":1,"mutable_content":true}"#, ["/content/mutable_content not_allowed"]),
        (
            #"{"alert":{"title":1,"loc_args":["a",2],"loc_key":"k"}}"#,
            ["/content/alert/title wrong_type", "/content/alert/loc_args wrong_type"]
        ),
        (#"{"badge":-1}"#, ["/content/badge wrong_type"]), (#"{"badge":1.5}"#, ["/content/badge wrong_type"]),
        (#"{"badge":"1"}"#, ["/content/badge wrong_type"]),
        (
            #"{"alert":"a","thread_id":1,"category":{},"target_content_id":[],"filter_criteria":true}"#,
            [
                "/content/thread_id wrong_type", "/content/category wrong_type", "/content/target_content_id wrong_type",
                "/content/filter_criteria wrong_type",
            ]
        ),
        (#"{"alert":"a","interruption_level":"urgent"}"#, ["/content/interruption_level wrong_type"]),
        (#"{"alert":"a","relevance_score":1.1}"#, ["/content/relevance_score wrong_type"]),
        (#"{"alert":"a","mutable_content":1}"#, ["/content/mutable_content wrong_type"]),
        (#"{"badge":1,"mutable_content":true}"#, ["/content/mutable_content not_allowed"]),
        (#"{"alert":{"launch_image":"x"},"sound":"s","mutable_content":true}"#, ["/content/mutable_content not_allowed"]),
        (#"{"alert":"a","sound":7}"#, ["/content/sound wrong_type"]),
        (#"{"alert":"a","sound":{"name":"x"}}"#, ["/content/sound/critical missing"]),
        (#"{"alert":"a","sound":{"critical":true}}"#, ["/content/sound/name missing"]),
        (#"{"alert":"a","sound":{"critical":true,"name":"x","volume":2}}"#, ["/content/sound/volume wrong_type"]),
        (#"{"alert":"a","sound":{"critical":1,"name":"x"}}"#, ["/content/sound/critical wrong_type"]),
        (#"{"alert":"a","sound":{"critical":true,"name":"x","file":"y"}}"#, ["/content/sound/file unknown_field"]),
        (#"{"alert":"a","custom":{"aps":{}}}"#, ["/content/custom/aps not_allowed"]),
        (#"{"alert":"a","custom":7}"#, ["/content/custom wrong_type"]),
        (#"{"alert":"a","custom":{"a/b":null}}"#, ["/content/custom/a~1b wrong_type"]),
        (#"{"alert":"\#(String(repeating: "é", count: 2100))"}"#, ["/content too_large"]),
        (#"{"content_available":true,"category":"c"}"#, ["/push_type ambiguous_push_type"]),
        (#"{"content_changed":true}"#, ["/push_type ambiguous_push_type"]),
        (#"{"event":"update","content_state":{},"badge":1}"#, ["/push_type ambiguous_push_type"]),
        (#"{"event":"update"}"#, ["/content/content_state missing"]),
        (#"{"event":"stop","content_state":{}}"#, ["/content/event unsupported_value"]),
        (#"{"event":"update","content_state":[]}"#, ["/content/content_state wrong_type"]),
        (
            #"{"event":"start","content_state":{}}"#,
            ["/content/alert missing", "/content/attributes_type missing", "/content/attributes missing"]
        ),
        (
            #"{"event":"end","attributes":{},"input_push_token":true}"#,
            ["/content/attributes not_allowed", "/content/input_push_token not_allowed"]
        ),
        (#"{"event":"update","content_state":{},"dismissal_date":"2026-11-21T13:00:00Z"}"#, ["/content/dismissal_date not_allowed"]),
        (#"{"event":"update","content_state":{},"timestamp":1795262400}"#, ["/content/timestamp wrong_type"]),
        (#"{"event":"update","content_state":{},"stale_date":"soon"}"#, ["/content/stale_date invalid_time"]),
        (#"{"event":"end","content_state":{},"dismissal_date":"1960-01-01T00:00:00Z"}"#, ["/content/dismissal_date out_of_range"]),
        (#"{"event":"update","content_state":{},"stale_date":"2300-01-01T00:00:00Z"}"#, ["/content/stale_date out_of_range"]),
        (
            #"{"event":"start","content_state":{},"alert":{},"attributes_type":"","attributes":{}}"#,
            ["/content/attributes_type too_short", "/content/alert missing"]
        ),
        (
            #"""
            {"event":"start","content_state":{},"alert":{"title_loc_args":["a"],"body":""},"sound":"s","attributes_type":"A",\#
            "attributes":{}}
            """#,
            ["/content/alert missing"]
        ),
        (#"{"event":"update","content_state":{},"sound":"s"}"#, ["/content/sound not_allowed"]),
        (#"{"event":"update","content_state":{},"alert":"x","sound":7}"#, ["/content/sound wrong_type"]),
        (#"{"event":"update","content_state":{},"alert":"x","sound":{"naem":"n","volume":9}}"#, ["/content/sound/naem unknown_field"]),
        (
            #"{"event":"update","content_state":{},"alert":"x","sound":{}}"#,
            ["/content/sound/critical missing", "/content/sound/name missing"]
        ),
        (
            #"{"event":"update","content_state":{},"alert":"x","sound":{"critical":true,"name":5,"volume":9}}"#,
            ["/content/sound/name missing", "/content/sound/volume wrong_type"]
        ),
        (
            #"{"event":"update","content_state":{},"alert":"x","sound":{"critical":1,"name":"n"}}"#,
            ["/content/sound/critical wrong_type"]
        ),
        (#"{"event":"update","content_state":{},"alert":{"title":"t","title_loc_key":"k"}}"#, ["/content/alert/title_loc_key conflict"]),
        (
            #"{"event":"update","content_state":{},"alert":{"title_loc_key":7,"loc_args":["a",1]}}"#,
            ["/content/alert/title_loc_key wrong_type", "/content/alert/loc_args wrong_type"]
        ),
        (#"{"event":"update","content_state":{},"alert":{"subtitle":"s"}}"#, ["/content/alert/subtitle unknown_field"]),
        (#"{"event":"update","content_state":{},"relevance_score":"high"}"#, ["/content/relevance_score wrong_type"]),
    ]

    @Test("The error for an impossible date asks for a date") func dates() throws {
        let content = #"{"event":"end","content_state":{},"dismissal_date":"1960-01-01T00:00:00Z"}"#
        #expect(try ParsedRequest(content: content).details == ["a date and time from 1970 to 2286"])
    }

    // MARK: Push types

    @Test(
        "A stated push type is held against the content",
        arguments: [
            (PushType.background, #"{"alert":"a","content_available":true}"#, ["/content/alert not_allowed"]),
            (.background, #"{"badge":1,"sound":"s"}"#, ["/content/content_available missing"]),
            (.background, #"{"content_available":true,"interruption_level":"passive"}"#, ["/content/interruption_level not_allowed"]),
            (.alert, #"{"content_available":true}"#, ["/content missing"]),
            (.liveactivity, #"{"alert":"a"}"#, ["/content/event unsupported_value"]),
            (.widgets, #"{"alert":"a"}"#, ["/content/content_changed missing"]), (.controls, #"{"content_changed":true}"#, []),
            (.mdm, #"{"custom":{"mdm":"magic"}}"#, ["/content not_allowed"]),
            (.voip, #"{"alert":"a"}"#, []), (.location, #"{"custom":{"a":1}}"#, []),
            (.alert, #"{"content_available":true,"category":"c","sound":"s"}"#, []),
            (.alert, #"{"alert":{"title":"","loc_key":"K"}}"#, []), (.alert, #"{"alert":{"title_loc_key":"K"}}"#, []),
            (.alert, #"{"alert":{"subtitle":"s"}}"#, []), (.alert, #"{"alert":{"title":""},"badge":1}"#, []),
            // An update may light up the screen, or ring, without a word.
            (.liveactivity, #"{"event":"update","content_state":{},"alert":{},"sound":"s"}"#, []),
        ])
    func holds(type: PushType, content: String, problems: [String]) throws {
        let parsed = try ParsedRequest(content: content, more: #","push_type":"\#(type.rawValue)""#)
        #expect(parsed.problems == problems)
        #expect(parsed.request?.pushType == (problems.isEmpty ? type : nil))
    }

    @Test(
        "A raw payload's push type is derived where it can be no other",
        arguments: [
            (#"{"aps":{"alert":"a","content-available":1}}"#, .alert), (#"{"aps":{"sound":"a"}}"#, .alert),
            (#"{"aps":{"content-available":1},"k":1}"#, .background),
            (#"{"aps":{"event":"end","timestamp":1}}"#, .liveactivity), (#"{"aps":{"content-available":1,"category":"c"}}"#, nil),
            (#"{"aps":{"content-available":0}}"#, nil), (#"{"aps":{}}"#, nil), (#"{"mdm":"x"}"#, nil),
            (#"{"container-identifier":"x"}"#, nil), (#"{"call":1}"#, nil),
            (#"{"aps":{"content-changed":true}}"#, nil), (#"{"aps":{"alert":"a","category":"c","content-state":{}}}"#, nil),
        ] as [(String, PushType?)])
    func derives(payload: String, type: PushType?) throws {
        let parsed = try ParsedRequest(payload: payload)
        #expect(parsed.request?.pushType == type)
        #expect(parsed.problems == (type == nil ? ["/push_type ambiguous_push_type"] : []))
    }

    @Test(
        "Every push type takes what Apple's page shows, verbatim",
        arguments: [
            (PushType.voip, #"{ "call" : "é" }"#), (.pushtotalk, #"{"aps":{"ptt-push-type":"service-update"}}"#),
            (.location, #"{"aps":{}}"#),
            (.complication, #"{"aps":{}}"#),
            (.fileprovider, #"{"container-identifier":"NSFileProviderRootContainerItemIdentifier","domain":"d"}"#),
            (.mdm, #"{"mdm":"magic"}"#), (.controls, #"{"aps":{"content-changed":true}}"#),
            (.widgets, #"{"aps":{"content-changed":true}}"#),
            (.alert, #"{"aps":{"alert":{"action-loc-key":"old"},"badge":1,"url-args":["a"]}}"#),
            (.alert, #"{"aps":{"alert":{"title":"t","sound":{}}}}"#),
            (
                .liveactivity,
                #"""
                {"aps":{"timestamp":1795262400.5,"event":"update","content-state":{},"alert":{"title":{"loc-key":"k","loc-args":["a"]},\#
                "sound":"s"}}}
                """#
            ),
        ])
    func verbatim(type: PushType, payload: String) throws {
        let parsed = try ParsedRequest(payload: payload, type: type)
        #expect(parsed.problems == [])
        #expect(parsed.payload == payload)
        #expect(parsed.request?.priority == ([.background, .liveactivity].contains(type) ? 5 : 10))
        #expect(parsed.request?.apnsExpiration == (type == .pushtotalk ? 0 : (ParsedRequest.now + 24 * ParsedRequest.hour) / 1000))
    }

    @Test(
        "Raw payloads are held to the same rules at their own places",
        arguments: [
            (
                PushType.alert, #"{"aps":{"alert":{"title":7,"loc-args":"x"}}}"#,
                ["/payload/aps/alert/title wrong_type", "/payload/aps/alert/loc-args wrong_type"]
            ),
            (.alert, #"{"aps":{"alert":{"title":{"loc-key":"k"}}}}"#, ["/payload/aps/alert/title wrong_type"]),
            (
                .alert, #"{"aps":{"alert":"a","sound":{"critical":0,"name":"x","volume":-1}}}"#,
                ["/payload/aps/sound/critical unsupported_value", "/payload/aps/sound/volume wrong_type"]
            ),
            (.alert, #"{"aps":{"alert":"a","url-args":"x"},"k":null}"#, ["/payload/k wrong_type", "/payload/aps/url-args wrong_type"]),
            (.alert, #"{"aps":null}"#, ["/payload/aps wrong_type"]),
            (
                .liveactivity, #"{"aps":{"event":"update","timestamp":1795262400000,"content-state":{}}}"#,
                ["/payload/aps/timestamp wrong_type"]
            ),
            (.liveactivity, #"{"aps":{"event":"update","content-state":{}}}"#, ["/payload/aps/timestamp missing"]),
            (
                .liveactivity, #"{"aps":{"event":"update","timestamp":1,"content-state":{},"alert":{"body":{"loc-key":1}}}}"#,
                ["/payload/aps/alert/body/loc-key wrong_type"]
            ),
            (
                .liveactivity,
                #"""
                {"aps":{"event":"start","timestamp":1,"alert":"a","attributes":{},"attributes-type":1,"input-push-token":true,\#
                "input-push-channel":1}}
                """#,
                [
                    "/payload/aps/attributes-type wrong_type", "/payload/aps/input-push-token wrong_type",
                    "/payload/aps/input-push-channel wrong_type",
                ]
            ),
            (
                .liveactivity,
                #"{"aps":{"event":"update","timestamp":-1,"content-state":{},"alert":{"sound":{"critical":true,"volume":"x"}}}}"#,
                [
                    "/payload/aps/alert/sound/critical unsupported_value", "/payload/aps/alert/sound/name missing",
                    "/payload/aps/alert/sound/volume wrong_type", "/payload/aps/timestamp wrong_type",
                ]
            ),
            (
                .liveactivity,
                #"{"aps":{"event":"start","timestamp":1,"alert":{"title":{"loc-key":""}},"attributes":{},"attributes-type":"A"}}"#,
                ["/payload/aps/alert missing"]
            ),
            (.background, #"{"aps":{"content-available":1,"a/b":1}}"#, ["/payload/aps/a~1b not_allowed"]),
            // An empty sound is none, and an empty name of one as well.
            (.alert, #"{"aps":{"sound":""}}"#, ["/payload/aps/sound missing"]),
            (.alert, #"{"aps":{"alert":"","sound":""}}"#, ["/payload/aps/alert missing"]),
            (.alert, #"{"aps":{"content-available":1,"sound":""}}"#, ["/payload/aps/sound missing"]),
            (.alert, #"{"aps":{"alert":"a","sound":""}}"#, []), (.alert, #"{"aps":{"badge":0,"sound":""}}"#, []),
            (.alert, #"{"aps":{"alert":"a","sound":{"critical":1,"name":""}}}"#, ["/payload/aps/sound/name missing"]),
            (.alert, #"{"aps":{"alert":"a","sound":{"name":"n"}}}"#, ["/payload/aps/sound/critical missing"]),
            (.alert, #"{"aps":{"alert":"a","sound":{"critical":true,"name":"n"}}}"#, ["/payload/aps/sound/critical unsupported_value"]),
            // A null at any depth of what is the app's own, and in aps and alert.
            (.alert, #"{"aps":{"alert":"a"},"x":{"y":null}}"#, ["/payload/x/y wrong_type"]),
            (.alert, #"{"aps":{"alert":"a"},"x":[1,{"a/b":[null]}]}"#, ["/payload/x/1/a~1b/0 wrong_type"]),
            (.background, #"{"aps":{"content-available":1},"x":[null]}"#, ["/payload/x/0 wrong_type"]),
            (.voip, #"{"call":{"from":null}}"#, ["/payload/call/from wrong_type"]),
            (.alert, #"{"aps":{"alert":{"body":"b","action-loc-key":null}}}"#, ["/payload/aps/alert/action-loc-key wrong_type"]),
            (
                .alert, #"{"aps":{"alert":"a","thread-id":null,"mine":null}}"#,
                ["/payload/aps/thread-id wrong_type", "/payload/aps/mine wrong_type"]
            ),
            (
                .liveactivity, #"{"aps":{"event":"update","timestamp":1,"content-state":{"eta":null}},"x":{"y":null}}"#,
                ["/payload/x/y wrong_type"]
            ),
            // A start goes to the tokens of its attributes type, and names a channel by Apple's id.
            (
                .liveactivity,
                #"{"aps":{"event":"start","timestamp":1,"alert":"a","attributes":{},"attributes-type":"a\nb","input-push-channel":"x"}}"#,
                ["/payload/aps/attributes-type invalid_character", "/payload/aps/input-push-channel invalid_channel_id"]
            ),
        ])
    func refusesRaw(type: PushType, payload: String, problems: [String]) throws {
        #expect(try ParsedRequest(payload: payload, type: type).problems == problems)
    }

    @Test(
        "A start's attributes type has a name's limits, and its channel an id of Apple's",
        arguments: [
            (String(repeating: "a", count: 128), "dHN0LXNyY2gtY2hubA==", []),
            (String(repeating: "a", count: 129), "dHN0LXNyY2gtY2hubA==", ["/content/attributes_type too_long"]),
            (#"a\u007f"#, "dHN0LXNyY2gtY2hubA==", ["/content/attributes_type invalid_character"]),
            (#"a\nb"#, "dHN0LXNyY2gtY2hubA==", ["/content/attributes_type invalid_character"]),
            ("A", "x", ["/content/input_push_channel invalid_channel_id"]), ("A", "", ["/content/input_push_channel invalid_channel_id"]),
        ])
    func starts(type: String, channel: String, problems: [String]) throws {
        let parsed = try ParsedRequest(
            content: #"{"event":"start","attributes":{"ride":"1"},"content_state":{"eta":1},"alert":{"title":"t","body":"b"},"#
                + #""attributes_type":"\#(type)","input_push_channel":"\#(channel)","input_push_token":true}"#)
        #expect(parsed.problems == problems)
    }

    @Test("A typed sound that is an object and not critical is told so, and a typed null is refused at its place") func typedPlaces() throws
    {
        let sound = try ParsedRequest(content: #"{"alert":"a","sound":{"critical":false,"name":"n"}}"#)
        #expect(sound.problems == ["/content/sound/critical unsupported_value"])
        #expect(sound.details == ["true: a sound that is an object is a critical one; any other sound is a string, its name"])
        #expect(try ParsedRequest(content: #"{"alert":"a","sound":{"name":"n"}}"#).problems == ["/content/sound/critical missing"])
        #expect(try ParsedRequest(content: #"{"alert":"a","custom":{"x":{"y":null}}}"#).problems == ["/content/custom/x/y wrong_type"])
        #expect(try ParsedRequest(content: #"{"sound":""}"#).problems == ["/content/sound missing"])
    }

    @Test("The limit is in bytes of what is sent: exactly as many are taken, one more is not", arguments: [PushType.alert, .voip])
    func sizes(type: PushType) throws {
        let frame = #"{"aps":{"alert":""}}"#.utf8.count
        for (extra, problems) in [(0, []), (1, ["/payload too_large"])] {
            let text = String(repeating: "x", count: type.maximumPayloadBytes - frame + extra)
            #expect(try ParsedRequest(payload: #"{"aps":{"alert":"\#(text)"}}"#, type: type).problems == problems)
            let typed = try ParsedRequest(content: #"{"alert":"\#(text)"}"#, more: #","push_type":"\#(type.rawValue)""#)
            #expect(typed.problems == problems.map { $0.replacing("payload", with: "content") })
        }
    }

    @Test("A payload that is too large is read no further", arguments: ["payload", "content"]) func readsNoFurther(form: String) throws {
        let key = String(repeating: "k", count: 800_000)
        let values = String(repeating: "0,", count: 60_000) + "null"
        let problems =
            form == "payload"
            ? try ParsedRequest(payload: #"{"aps":{"alert":"a"},"\#(key)":[\#(values)]}"#).problems
            : try ParsedRequest(content: #"{"alert":"a","custom":{"\#(key)":[\#(values)]}}"#).problems
        #expect(problems == ["/\(form) too_large"])
    }

    @Test("A custom key has one problem: the first null below it") func firstNull() throws {
        let nulls = Array(repeating: "null", count: 50).joined(separator: ",")
        let payload = #"{"aps":{"alert":"a"},"a":[1,{"b":[{},2,\#(nulls)]},\#(nulls)],"c":{"d":[],"e":null,"f":null},"g":[[[]]]}"#
        #expect(try ParsedRequest(payload: payload).problems == ["/payload/a/1/b/2 wrong_type", "/payload/c/e wrong_type"])
        let key = String(repeating: "k", count: 3000)
        let long = try ParsedRequest(payload: #"{"aps":{"alert":"a"},"\#(key)":[\#(nulls)]}"#).problems
        #expect(long == ["/payload/\(key.prefix(JSONProblems.maximumPointerBytes - 9))… wrong_type"])
    }

    @Test("Either content or payload") func oneForm() throws {
        #expect(try ParsedRequest(#"{"to":{"user":"a"}}"#).problems == ["/content missing"])
        #expect(try ParsedRequest(content: #"{"alert":"a"}"#, more: #","payload":{"aps":{"alert":"a"}}"#).problems == ["/content conflict"])
        #expect(try ParsedRequest("[]").problems.first == " wrong_type")
    }

    // MARK: Locales

    @Test("Every locale has a body of its own") func variants() throws {
        let parsed = try ParsedRequest(
            content: #"{"alert":"hello"}"#,
            more:
                #"""
                ,"locales":{"de":{"content":{"alert":"hallo"}},"de_AT":{"payload":{ "aps":{"alert":"servus"}}},\#
                "zh-Hant":{"content":{"badge":1}}}
                """#
        )
        #expect(parsed.problems == [])
        let content = try #require(parsed.request?.content)
        #expect(content.variants.map(\.locale) == ["de", "de-at", "zh-hant"])
        #expect(String(decoding: content.variant(for: "de-CH"), as: UTF8.self) == #"{"aps":{"alert":"hallo"}}"#)
        #expect(String(decoding: content.variant(for: "de_AT"), as: UTF8.self) == #"{ "aps":{"alert":"servus"}}"#)
        #expect(String(decoding: content.variant(for: "fr"), as: UTF8.self) == #"{"aps":{"alert":"hello"}}"#)
    }

    @Test(
        "A locale's body is held to every rule, at its own place",
        arguments: [
            (#"{"de":{"content":{"alert":"a","badge":-1}}}"#, ["/locales/de/content/badge wrong_type"]),
            (#"{"de":{"payload":{"aps":{"alert":{"title":1}}}}}"#, ["/locales/de/payload/aps/alert/title wrong_type"]),
            (#"{"de":{"content":{"alert":"\#(String(repeating: "x", count: 4100))"}}}"#, ["/locales/de/content too_large"]),
            (#"{"de":{"content":{"content_available":true}}}"#, ["/locales/de/content conflict"]),
            (#"{"de":{}}"#, ["/locales/de/content missing"]), (#"{"de":7}"#, ["/locales/de wrong_type"]),
            (#"{"de":{"content":{"alert":"a"},"title":"x"}}"#, ["/locales/de/title unknown_field"]),
            (#"{"de":{"payload":[]}}"#, ["/locales/de/payload wrong_type"]),
            (#"{"german/x":{"content":{"alert":"a"}}}"#, ["/locales/german~1x invalid_locale"]),
            (#"{"":{"content":{"alert":"a"}}}"#, ["/locales/ invalid_locale"]),
            (#"{"de-AT":{"content":{"alert":"a"}},"de_at":{"content":{"alert":"a"}}}"#, ["/locales/de_at duplicate"]),
            (#"[]"#, ["/locales wrong_type"]),
        ])
    func refusesVariants(locales: String, problems: [String]) throws {
        #expect(try ParsedRequest(content: #"{"alert":"a"}"#, more: #","locales":\#(locales)"#).problems == problems)
    }

    @Test("A stated push type is every locale's") func statedType() throws {
        let parsed = try ParsedRequest(
            content: #"{"alert":"a"}"#, more: #","push_type":"alert","locales":{"de":{"content":{"content_available":true}}}"#)
        #expect(parsed.problems == ["/locales/de/content missing"])
        let many = (0...100).map {
            #""a\#(Character(UnicodeScalar(UInt8(97 + $0 / 26))))\#(Character(UnicodeScalar(UInt8(97 + $0 % 26))))":{}"#
        }
        #expect(
            try ParsedRequest(content: #"{"alert":"a"}"#, more: #","locales":{\#(many.joined(separator: ","))}"#).problems == [
                "/locales too_many"
            ])
    }
}
