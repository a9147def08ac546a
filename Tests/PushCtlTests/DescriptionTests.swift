import StrictJSON
import Synchronization
import TestSupport
import Testing

@Suite("pushctl and the API's description agree", .timeLimit(.minutes(5)))
struct DescriptionTests {
    private static let id = "9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30"
    private static let time = "2026-12-01T09:00:00Z"

    /// Command lines that together give every option of every command. A number before one is its exit code if it is not 0.
    static let lines = [
        "apps create shop --bundle-id com.example.shop --device-policy single --environments sandbox", "apps list", "apps show shop",
        "apps create shop --bundle-id b --stale-after-days 9 --remove-stale --event-stream notifications --activity-window-seconds 5",
        "apps create shop --bundle-id b --never-stale --keep-stale",
        "apps update shop --bundle-id b --device-policy multi --environments sandbox --stale-after-days 9 --activity-window-seconds 5 "
            + "--event-stream notifications,installations,device_receipts --remove-stale",
        "apps update shop --never-stale --keep-stale --event-stream none",
        "keys create --app shop --name n --scopes devices,send,read,admin --rate 5 --expires-at \(time) --quiet",
        "keys list", "keys rotate 0123456789abcdef --overlap-seconds 5 --expires-at \(time) --quiet", "keys revoke 0123456789abcdef",
        "audit --app shop --key 0123456789abcdef --action app.created --since \(time) --limit 5",
        "installations list shop --user a/b --state stale --permission unknown --tag app:beta --seen-after \(time) --seen-before \(time) "
            + "--limit 5 --full-tokens -o json",
        "installations list shop", "installations show shop \(id) --full-tokens", "installations tag shop \(id) beta",
        "installations history shop \(id) --limit 5 --oldest-first", "installations history shop \(id)",
        "installations search shop --token-file token --environment sandbox", "users erase shop ada --yes", "users export shop ada -o data",
        "2 import shop installations --errors errors --from-line 1 --attempts 1", "export shop --after \(id) --attempts 1 -o lines",
        "activities list shop --user ada --state dismissed --limit 5", "activities show shop ride --user ada",
        "activities show shop ride --installation \(id)",
        "activities update shop ride --user ada --state '{}' --idempotency-key k --stale-seconds 5 --priority 5",
        "activities update shop ride --installation \(id) --state '{}'", "activities end shop ride --user ada",
        "activities end shop ride --installation \(id) --state '{}' --idempotency-key k --dismiss-seconds 5",
        "quarantine list shop --limit 5", "quarantine restore shop --installation \(id) --yes",
        "dead list --app shop --reason expired --lane bulk --notification \(id) --limit 5", "dead show \(id)",
        "dead replay \(id) --app shop --reason expired --lane bulk --notification \(id) --yes --extend 60", "dead replay --all --yes",
        "dead drop \(id) --app shop --reason expired --lane bulk --notification \(id) --yes", "dead drop --all --yes",
        "send shop --file notification --wait", "send shop --user ada --payload payload --idempotency-key k",
        "send shop --installation \(id) --title t --body b --lane soon --ttl-seconds 60 --device-receipts",
        "send shop --users-file users --title t", "send shop --users-file many --title t", "send shop --installations-file ids --title t",
        "2 send-batch shop batch --from-line 1 --attempts 1",  // The topic of the example is no bundle id.
        "1 validate shop notification --apns-file file.apns --locale de", "validate shop notification",
        "status shop \(id)", "notifications list shop --state sending --user ada --since \(time) --until \(time) --limit 5",
        "notifications show shop \(id)",
        "notifications deliveries shop \(id) --state accepted --reason Unregistered --installation \(id) --limit 5",
        "notifications why shop \(id) --user 'a&b'", "cancel shop \(id)", "hold set shop --lane soon --reason r --for 2h",
        "hold set shop --notification \(id) --reason r --until \(time)", "hold set --all-apps --reason r", "hold list shop --all --limit 5",
        "hold list", "hold lift shop \(id)", "hold lift --all-apps \(id)", "quiet-hours show shop ada",
        "quiet-hours set shop ada 22:00 07:00", "quiet-hours clear shop ada",
        "channels list shop --state foreign --environment sandbox --limit 5", "channels get shop c",
        "channels create shop c --environment sandbox --storage latest", "channels adopt shop c --channel-id AA== --environment sandbox",
        "channels broadcast shop c --state '{}' --idempotency-key k --event end --priority 5 --fallback", "channels delete shop c --force",
        "channels delete shop --channel-id AA== --environment sandbox", "webhooks list shop",
        "webhooks create shop https://shop.example --events notification.completed,token.* --description d --quiet",
        "webhooks update shop \(id) --to https://shop.example --events '*' --description d --enable",
        "webhooks update shop \(id) --disable",
        "webhooks delete shop \(id)", "webhooks rotate shop \(id) --overlap-seconds 5 --quiet", "webhooks ping shop \(id)",
        "webhooks messages shop \(id) --state failed --limit 5", "webhooks redeliver shop \(id) --message \(id)",
        "webhooks redeliver shop \(id) --failed",
    ]

    /// The files that the lines name.
    private static let files = """
        printf 0a1b > token; printf 'ada\\n' > users; seq 1001 > many; printf '\(id)\\n' > ids; printf '{"aps":{}}' > payload
        printf '{"to":{"user":"ada"},"content":{"alert":"Hello"}}' > notification
        printf '{"notification":%s}\\n' "$(cat notification)" "$(cat notification)" > batch
        printf '{"id":"\(id)","user":null,"tokens":[]}\\n' > installations

        """

    @Test("Each request is what the description says, and each command understands the answer", arguments: lines)
    func requests(line: String) async throws {
        let description = try APIDescription.committed()
        let code = Int32(line.prefix { $0 != " " })
        let asked = Mutex<Set<String>>([])
        let (result, requests) = try await ScriptedServer.run(answering: { request in
            guard let operation = description.operation(request.method, request.target),
                let answer = description.answers(of: operation).first
            else { return .problem(404, "not_found") }
            // Everything, and then as little as possible: the last page, and nothing left to do.
            let isFirst = asked.withLock { $0.insert(operation.id).inserted }
            var example = SchemaExample(isFirst ? .whole : .required, in: description)
            // As long as it is not `completed`, a command waits.
            if operation.id == "readNotification" { example = SchemaExample(.whole, in: description, choice: 4) }
            return .answer(answer.status, example.body(of: answer))
        }) { server, url in
            let command = code.map { line.dropFirst("\($0) ".count) } ?? line[...]
            return (try await shell("\(Self.files)pushctl \(command)", ["PUSH_URL": url, "PUSH_KEY": "psh_test"]), server.requests)
        }
        #expect(result.status == code ?? 0, "\(result.output)")
        // What a command looks for in vain it shows as a question mark.
        #expect(!result.output.split(whereSeparator: \.isWhitespace).contains("?"), "\(result.output)")
        #expect(!requests.isEmpty)
        for request in requests { #expect(description.check(request).faults == [], "\(request.method) \(request.target) \(request.body)") }
    }

    @Test("The lines give every option of every command") func whole() async throws {
        let (status, output) = try await shell("pushctl --experimental-dump-help")
        #expect(status == 0)
        var left = Self.options(try JSONValue.parse(Array(output.utf8))["command"], "")
        // One asks no server. The other asks the simulator too, in the end-to-end tests.
        for word in ["keys generate", "demo"] { left[word] = nil }
        for line in Self.lines {
            let words = line.split(separator: " ").map(String.init)
            for name in left.keys where "\(line.drop { $0.isNumber || $0 == " " }) ".hasPrefix(name + " ") {
                left[name]?.subtract(words + [""])
            }
        }
        #expect(left.filter { !$0.value.isEmpty } == [:])
    }

    /// Of each command without commands of its own its options, and an empty one for itself.
    private static func options(_ command: JSONValue?, _ name: String) -> [String: Set<String>] {
        let commands = (command?["subcommands"]?.arrayValue ?? []).filter { $0["commandName"]?.stringValue != "help" }
        guard commands.isEmpty else {
            return commands.reduce(into: [:]) { all, command in
                let word = command["commandName"]?.stringValue ?? "?"
                all.merge(options(command, name.isEmpty ? word : "\(name) \(word)")) { $1 }
            }
        }
        let common: Set = ["--url", "--key-file", "--output", "--help", "--version"]
        let names = (command?["arguments"]?.arrayValue ?? []).flatMap { $0["names"]?.arrayValue ?? [] }
        let long = names.filter { $0["kind"]?.stringValue == "long" }.compactMap { $0["name"]?.stringValue.map { "--\($0)" } }
        return [name: Set(long).subtracting(common).union([""])]
    }
}
