import ArgumentParser
import StrictJSON
import Testing

@testable import PushCtl

@Suite("How answers are shown")
struct OutputFormatTests {
    /// Every command that does something.
    private static let leaves = below(PushCommand.self)

    private static func below(_ type: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        type.configuration.subcommands.isEmpty ? [type] : type.configuration.subcommands.flatMap(below)
    }

    @Test("Every command takes -o; for an export it names a file, for a demonstration there is nothing to read") func everyCommand() {
        #expect(Self.leaves.count > 40)
        let without = Self.leaves.filter { !PushCommand.helpMessage(for: $0).contains("-o, --output") }
        #expect(without.map { "\($0)" } == ["DemoCommand"])
        let files = Self.leaves.filter { !PushCommand.helpMessage(for: $0).contains("text for people, or json") }
        #expect(files.map { "\($0)" }.sorted() == ["DemoCommand", "Export", "ExportCommand"])
    }

    @Test("A format that does not exist, or that names an export's file, is refused")
    func refused() throws {
        for arguments in [
            ["apps", "list", "-o", "yaml"], ["export", "shop", "-o", "json"], ["users", "export", "shop", "ada", "-o", "text"],
        ] {
            #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(arguments) }
        }
        let list = try #require(try PushCommand.parseAsRoot(["apps", "list", "-o", "json"]) as? AppsCommand.List)
        #expect(list.output.isJSON)
    }

    @Test("One is not many") func plurals() throws {
        #expect(counted(0, "delivery", "deliveries") == "0 deliveries")
        #expect(counted(1, "delivery", "deliveries") == "1 delivery")
        #expect(counted(2, "delivery", "deliveries") == "2 deliveries")
        func line(_ text: String) throws -> String { receiptLine(try JSONValue.parse(Array(text.utf8))) }
        #expect(try line(#"{"id":"n","state":"accepted","deliveries":1}"#) == "n  accepted  1 delivery")
        #expect(try line(#"{"id":"n","state":"accepted"}"#) == "n  accepted  its devices are found now")
    }

    @Test(
        "send --wait says by its code whom it reached",
        arguments: [
            (#"{"state":"completed","counts":{"total":2,"accepted":2}}"#, nil, "APNs accepted 2 of 2 deliveries."),
            (#"{"state":"completed","counts":{"total":2,"accepted":1,"unknown":1}}"#, 2, "APNs accepted 1 of 2 deliveries."),
            (#"{"state":"cancelled","counts":{"total":1,"accepted":1}}"#, 2, "APNs accepted 1 of 1 delivery."),
            (#"{"state":"completed","counts":{"total":1,"accepted":0,"token_gone":1}}"#, 3, "APNs accepted 0 of 1 delivery."),
            (#"{"state":"no_targets","counts":{"total":0,"accepted":0}}"#, 3, "No device was reached: there was none to send to."),
        ] as [(String, Int32?, String)])
    func reach(_ status: String, _ code: Int32?, _ words: String) throws {
        let reach = Reach(try JSONValue.parse(Array(status.utf8)))
        #expect(reach.exitCode?.rawValue == code && "\(reach)" == words)
    }
}

@Suite("The address of the service")
struct ServiceAddressTests {
    @Test(
        "Slashes at the end are taken away",
        arguments: [
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"), ("https://push.example.com//", "https://push.example.com"),
            ("http://[::1]:8080", "http://[::1]:8080"), ("https://example.com/push/", "https://example.com/push"),
            ("HTTP://localhost", "HTTP://localhost"),
        ])
    func address(_ given: String, _ expected: String) throws {
        #expect(try ServiceAddress.parse(given, from: "PUSH_URL") == expected)
    }
}
