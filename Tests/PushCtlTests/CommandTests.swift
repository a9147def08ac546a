import ArgumentParser
import Foundation
import StrictJSON
import Testing

@testable import PushCtl

@Suite("The command line")
struct CommandTests {
    @Test(
        "pushctl refuses contradicting or missing arguments before it sends anything",
        arguments: [
            ["send", "shop", "--title", "t"],
            ["send", "shop", "--title", "t", "--user", "a", "--installation", "b"],
            ["send", "shop", "--user", "a"],
            ["send", "shop", "--user", "a", "--title", "t", "--payload", "f"],
            ["send", "shop", "--title", "t", "--users-file", "f", "--installations-file", "g"],
            ["send", "shop", "--title", "t", "--users-file", "f", "--user", "a"], ["send", "shop", "--users-file", "f"],
            ["send", "shop", "--users-file", "-", "--payload", "-"], ["send", "shop", "--file", "f", "--users-file", "g"],
            ["send", "shop", "--file", "f", "--user", "a"], ["send", "shop", "--file", "f", "--lane", "bulk"],
            ["send-batch"], ["send-batch", "shop"], ["send-batch", "shop", "f", "--from-line", "0"],
            ["send-batch", "shop", "f", "--attempts", "0"],
            ["validate"], ["validate", "shop", "f", "--locale", "de"],
            ["validate", "shop", "f", "--locale", "d!", "--apns-file", "x.apns"],
            ["keys", "create", "--name", "n"],
            ["status", "shop"],
            ["apps", "show"], ["apps", "create", "shop"],
            ["apps", "update", "shop"],
            ["apps", "update", "shop", "--stale-after-days", "9", "--never-stale"],
            ["apps", "update", "shop", "--remove-stale", "--keep-stale"],
            ["keys", "rotate"], ["audit", "shop"], ["audit", "--limit", "0"],
            ["keys", "rotate", "0123456789abcdef", "--overlap-seconds", "2592001"],
            ["keys", "create", "--name", "n", "--scopes", "read", "--rate", "fast"],
            ["dead", "show"], ["dead", "show", "seven"], ["dead", "list", "--lane", "fast"], ["dead", "list", "--limit", "0"],
            ["dead", "drop"], ["dead", "drop", "--all", "--app", "shop"], ["dead", "drop", "not-a-uuid"],
            ["dead", "replay"], ["dead", "replay", "--app", "shop", "--extend", "0"],
            ["dead", "replay", "--app", "shop", "--extend", "259201"],
            ["quarantine", "list"], ["quarantine", "list", "shop", "--limit", "0"],
            ["quarantine", "restore"], ["quarantine", "restore", "shop", "--installation", "not-a-uuid"],
            ["hold", "set", "shop"], ["hold", "set", "--reason", "r"], ["hold", "set", "shop", "--all-apps", "--reason", "r"],
            ["hold", "set", "shop", "--reason", "r", "--lane", "fast"], ["hold", "set", "shop", "--reason", "r", "--notification", "x"],
            ["hold", "set", "shop", "--reason", "r", "--for", "2"], ["hold", "set", "shop", "--reason", "r", "--for", "2w"],
            ["hold", "set", "shop", "--reason", "r", "--for", "-2h"], ["hold", "set", "shop", "--reason", "r", "--for", "0s"],
            ["hold", "set", "shop", "--reason", "r", "--for", "99999999999999999999d"],
            ["hold", "set", "shop", "--reason", "r", "--for", "2h", "--until", "2026-11-22T09:00:00Z"],
            ["hold", "set", "--all-apps", "--reason", "r", "--notification", "9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30"],
            ["hold", "lift", "shop"], ["hold", "lift", "shop", "x"], ["hold", "list", "shop", "--limit", "0"],
            ["hold", "lift", "--all-apps", "shop", "9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30"],
            ["cancel", "shop"], ["cancel", "shop", "x"],
            ["quiet-hours", "set", "shop", "ada", "22:00"], ["quiet-hours", "set", "shop", "ada", "22:00", "22:00"],
            ["quiet-hours", "set", "shop", "ada", "24:00", "07:00"], ["quiet-hours", "set", "shop", "ada", "7:00", "07:00"],
            ["send", "--user", "a", "--title", "t"], ["send", "--app", "shop", "--user", "a", "--title", "t"],
            ["installations", "list"], ["installations", "list", "--app", "shop"], ["installations", "show", "i1"],
            ["installations", "list", "shop", "--limit", "0"],
            ["installations", "list", "shop", "--full-tokens"],
            ["installations", "show", "shop"],
            ["installations", "search", "shop", "00c0ffee"],
        ])
    func refused(arguments: [String]) {
        #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(arguments) }
    }

    @Test("A complete command line is understood") func understood() throws {
        let command = try PushCommand.parseAsRoot(["send", "shop", "--user", "ada", "--body", "hello", "--ttl-seconds", "60"])
        let send = try #require(command as? SendCommand)
        #expect(send.user == "ada" && send.body == "hello" && send.ttlSeconds == 60)
        let many = try PushCommand.parseAsRoot(["send", "shop", "--users-file", "-", "--title", "t"])
        #expect((many as? SendCommand)?.usersFile == "-")
    }

    @Test("How long a hold lasts is written with its unit") func holdDurations() throws {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200), ("7d", 604_800)] as [(String, Int64)] {
            #expect(holdSeconds(text) == seconds)
        }
        let set = try #require(try PushCommand.parseAsRoot(["hold", "set", "shop", "--reason", "r", "--for", "2h"]) as? HoldCommand.Set)
        #expect(set.app == "shop" && set.duration == "2h" && set.lane == nil)
    }

    @Test("A hold's row says what is held, by whom and until when") func holdRows() throws {
        let holds = try JSONValue.parse(
            Array(
                #"""
                [{"id":"a","app":"shop","lane":"bulk","state":"live","reason":"prices","set_at":"t1","set_by":"k1","fence":"effective"},
                {"id":"b","all":true,"state":"lifted","reason":"r","set_at":"t2","set_by":"k1","expires_at":"t4","lifted_at":"t3",
                "lifted_by":"k2","fence":"pending"},
                {"id":"c","app":"shop","notification":"n","state":"lifted","reason":"r","set_at":"t2","set_by":"k1","lifted_at":"t3",
                "lifted_by":"k2","fence":"effective"}]
                """#.utf8))
        let rows = holdTable(holds.arrayValue ?? []).description.split(separator: "\n").map { row in
            row.split(separator: "  ").map { $0.drop { $0 == " " } }.joined(separator: "|")
        }
        #expect(
            rows == [
                "HOLD|APP|WHAT|STATE|SET|BY|ENDS|REASON", "a|shop|lane bulk|live|t1|k1|when lifted|prices",
                "b|(all)|everything|lifted, unconfirmed|t2|k1|t3|r", "c|shop|n|lifted by k2|t2|k1|t3|r",
            ])
    }

    @Test("Cancelling says how much of it was still stoppable, or that it was too late") func cancellations() throws {
        func lines(_ text: String) throws -> String { cancellationLines(try JSONValue.parse(Array(text.utf8))) }
        #expect(
            try lines(#"{"id":"n","state":"cancelled","stoppable":1,"fence":"effective"}"#) == "Cancelled. 1 delivery was still stoppable.")
        let fannedOut = try lines(#"{"id":"n","state":"cancelled","stoppable":0,"not_expanded":true,"fence":"pending"}"#)
        #expect(fannedOut.hasPrefix("Cancelled. 0 deliveries were still stoppable.\n"))
        #expect(fannedOut.contains("more would have followed") && fannedOut.contains("goes on trying"))
        #expect(try lines(#"{"id":"n","state":"completed","stoppable":0,"fence":"none"}"#).hasPrefix("Too late: it is completed."))
    }

    @Test("Dead letters are named by ids, by filters or as all of them") func deadLetters() throws {
        let id = "9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30"
        func body(_ arguments: [String]) throws -> String {
            let command = try #require(try PushCommand.parseAsRoot(["dead", "drop"] + arguments) as? DeadCommand.Drop)
            var writer = JSONWriter()
            writer.object { command.choice.write(to: &$0) }
            return String(decoding: writer.bytes, as: UTF8.self)
        }
        #expect(try body([id]) == #"{"ids":["\#(id)"]}"#)
        #expect(try body(["--app", "shop", "--reason", "attempts_used_up"]) == #"{"app":"shop","reason":"attempts_used_up"}"#)
        #expect(try body(["--all", "--yes"]) == #"{"all":true}"#)
    }

    @Test("A replay reports one sum over all its calls") func replayed() throws {
        var sum = DeadLetterReplaySum()
        let first = #"{"letters":500,"kept":1,"unreadable":1,"remaining":3,"deliveries":{"sent":900,"fenced":2,"expired":0}}"#
        let second = #"{"letters":2,"kept":2,"unreadable":1,"remaining":0,"deliveries":{"sent":4,"fenced":0,"expired":1}}"#
        for text in [first, second] { try sum.add(try JSONValue.parse(Array(text.utf8))) }
        #expect(sum.letters == 502)
        #expect(sum.description.hasPrefix("502 letters replayed; deliveries: 904 sent, 2 fenced, 1 expired; 2 letters kept (1 unreadable)"))
        #expect(sum.description.contains("--extend"))
    }

    @Test("A command reads a whole request from a file or from standard input") func requests() throws {
        let send = try #require(try PushCommand.parseAsRoot(["send", "shop", "--file", "r.json", "--wait"]) as? SendCommand)
        #expect(send.file == "r.json" && send.wait)
        let batch = try #require(try PushCommand.parseAsRoot(["send-batch", "shop", "-", "-o", "json"]) as? SendBatchCommand)
        #expect(batch.file == "-" && batch.fromLine == 1 && batch.output.isJSON)
        let validate = try #require(try PushCommand.parseAsRoot(["validate", "shop"]) as? ValidateCommand)
        #expect(validate.file == "-" && validate.apnsFile == nil && !validate.output.isJSON)
        let written = try #require(
            try PushCommand.parseAsRoot(["validate", "shop", "r.json", "--apns-file", "x.apns", "--locale", "de_AT"]) as? ValidateCommand)
        #expect(written.file == "r.json" && written.apnsFile == "x.apns" && written.locale == "de_AT")
    }

    @Test("A rotation lasts a day unless an option changes it") func rotation() throws {
        let id = "0123456789abcdef"
        let usual = try #require(try PushCommand.parseAsRoot(["keys", "rotate", id]) as? KeysCommand.Rotate)
        #expect(usual.id == id && usual.overlapSeconds == 86_400 && usual.expiresAt == nil)
        let sudden = try PushCommand.parseAsRoot(["keys", "rotate", id, "--overlap-seconds", "0"])
        #expect((sudden as? KeysCommand.Rotate)?.overlapSeconds == 0)
    }

    @Test("Restoring asks for confirmation unless `--yes` is set, and may name installations") func restores() throws {
        let id = "9b2d1c54-0e3f-4a6b-8c7d-5e4f3a2b1c01"
        let command = try PushCommand.parseAsRoot(["quarantine", "restore", "shop", "--installation", id])
        let restore = try #require(command as? QuarantineCommand.Restore)
        #expect(restore.app == "shop" && restore.installation == [id] && !restore.yes)
    }

    @Test("Restoring sums up its calls and shows the remaining number of the last one") func sumsUp() throws {
        var progress = QuarantineProgress()
        for text in [#"{"restored":9998,"superseded":2,"remaining":5}"#, #"{"restored":4,"superseded":1,"remaining":0}"#] {
            try progress.add(JSONValue.parse(Array(text.utf8)))
        }
        #expect(progress == QuarantineProgress(restored: 10_002, superseded: 3, remaining: 0))
        #expect(throws: CommandFailure.self) { try progress.add(JSONValue.parse(Array("{}".utf8))) }
    }

    @Test("A missing key file is named") func missingKeyFile() async throws {
        let options = try ConnectionOptions.parse(["--key-file", "/nonexistent/key"])
        await #expect(throws: CommandFailure("the key file /nonexistent/key cannot be used: there is no such file")) {
            try await options.withClient { _ in }
        }
    }

    @Test(
        "A key file with more than a key is refused in words that do not repeat it", arguments: ["psh_a_b\nThis is the only time", "", "ü"])
    func notOneKey(_ text: String) async throws {
        let path = NSTemporaryDirectory() + "/key-\(UUID().uuidString)"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }
        let options = try ConnectionOptions.parse(["--key-file", path])
        await #expect(
            throws: CommandFailure(
                "the key file \(path) must hold one key and nothing else; with --quiet, pushctl keys create prints the key alone")
        ) { try await options.withClient { _ in } }
    }
}

@Suite("The output for the operator")
struct OutputTests {
    @Test("Columns are as wide as their widest cell and rows end without blanks") func table() {
        var table = Table("A", "LONG")
        table.add("wide", "x")
        table.add("y", "")
        #expect(table.description == "A     LONG\nwide  x\ny")
    }

    @Test("A delivery that waits shows its last attempt, a finished one its outcome") func deliveries() throws {
        let status = try JSONValue.parse(
            Array(
                """
                {"deliveries":[
                {"installation":"i1","hint":"…abcdef","environment":"sandbox","state":"pending","attempts":1,
                 "last_attempt":{"class":"throttled","status":429,"reason":"TooManyRequests"}},
                {"installation":"i2","hint":"…123456","environment":"production","state":"accepted","status":200,"attempts":1}]}
                """.utf8))
        #expect(
            deliveryTable(status["deliveries"]?.arrayValue ?? []).description == """
                INSTALLATION  TOKEN    ENVIRONMENT  STATE                STATUS  REASON           ATTEMPTS
                i1            …abcdef  sandbox      waiting (throttled)  429     TooManyRequests  1
                i2            …123456  production   accepted             200     -                1
                """)
    }

    @Test("The status of a campaign shows its outcomes, and no empty table") func campaign() throws {
        let status = try JSONValue.parse(
            Array(
                """
                {"state":"sending","accepted_at":"T1","expires_at":"T2","counts":{"total":9,"pending":4},"deliveries":[],
                 "reasons":[{"class":"accepted","status":200,"count":5}]}
                """.utf8))
        #expect(
            statusText(status) == """
                sending, accepted T1, expires T2
                OUTCOME   STATUS  REASON  DELIVERIES
                pending   -       -       4
                accepted  200     -       5
                """)
    }

    @Test("A key shows its state, its end, its last use and what it replaces") func keys() throws {
        let list = try JSONValue.parse(
            Array(
                """
                [{"id":"0a","app":"shop","name":"orders","scopes":["send","read"],"state":"expiring","requests_per_second":50,
                  "expires_at":"2030-01-01T00:00:00.000Z","last_used_at":"2029-12-31T00:00:00.000Z"},
                 {"id":"0b","app":null,"name":"ops","scopes":["admin"],"state":"live","rotated_from":"0a"}]
                """.utf8))
        #expect(
            keyTable(list.arrayValue ?? []).description == """
                ID  NAME    APP        SCOPES     RATE     STATE     ENDS                      LAST USED                 REPLACES
                0a  orders  shop       send,read  50/s     expiring  2030-01-01T00:00:00.000Z  2029-12-31T00:00:00.000Z  -
                0b  ops     every app  admin      default  live      never                     never                     0a
                """)
    }

    @Test("An app shows what becomes of its stale installations") func apps() throws {
        let list = try JSONValue.parse(
            Array(
                """
                [{"slug":"shop","bundle_id":"a","device_policy":"multi","environments":["production"],"stale_after_days":90,
                  "removes_stale":true,"event_stream":["notifications"],"activity_window_seconds":30},
                 {"slug":"bank","bundle_id":"b","device_policy":"single","environments":["sandbox"],"stale_after_days":null,
                  "removes_stale":true,"event_stream":[],"activity_window_seconds":0}]
                """.utf8))
        #expect(
            appTable(list.arrayValue ?? []).description == """
                APP   BUNDLE ID  DEVICES  ENVIRONMENTS  STALE AFTER  STALE ONES  EVENTS         ACTIVITY WINDOW
                shop  a          multi    production    90 days      removed     notifications  30 s
                bank  b          single   sandbox       never        -           -              0 s
                """)
    }
}
