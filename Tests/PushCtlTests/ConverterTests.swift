import Foundation
import TestSupport
import Testing

@Suite("The converters of deploy/converters, whose lines pushctl import takes", .timeLimit(.minutes(5)))
struct ConverterTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "deploy/converters").path

    private struct Result {
        let status: Int32
        /// The user of each line that was written; `null` for none.
        let users: [String]
        let errors: String
    }

    private func convert(_ command: String, _ input: String) async throws -> Result {
        let work = NSTemporaryDirectory() + "/converter-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: work) }
        try Data(input.utf8).write(to: URL(filePath: "\(work)/input"))
        let script = "cd '\(Self.folder)' && python3 \(command) '\(work)/input' > '\(work)/lines' 2> '\(work)/errors'"
        let shell = try ChildProcess("/bin/bash", ["-c", script], ["PATH": "/usr/bin:/bin"], log: "\(work)/log")
        let status = try await shell.exit()
        let lines = try String(contentsOfFile: "\(work)/lines", encoding: .utf8).split(separator: "\n")
        let users = lines.map { line in
            let rest = line.split(separator: "\"user\":", maxSplits: 1).last ?? ""
            return String(rest.prefix { $0 != "," }).replacing("\"", with: "")
        }
        return Result(status: status, users: users, errors: try String(contentsOfFile: "\(work)/errors", encoding: .utf8))
    }

    private static let header = "user,token,environment\n"
    private static func row(_ number: Int, user: String? = nil) -> String {
        "\(user ?? "u\(number)"),\(String(format: "%032x", number)),production\n"
    }

    @Test("A table gives a line for each row, whatever its line ends, quotes and byte order mark") func table() async throws {
        let text = "\u{feff}token,user,environment,more\r\n00aa,\"ada, \"\"the\"\" first\",production,x\r\n\r\n<00ab 00ac>,,dev,\r\n"
        let result = try await convert("device_table.py", text)
        #expect(result.status == 0 && result.users.count == 2 && result.users.last == "null", "\(result)")
    }

    @Test("A quote that nobody closed is an error that names the line on which its row begins", arguments: [20, 5000])
    func unclosedQuote(rows: Int) async throws {
        let result = try await convert(
            "device_table.py", Self.header + Self.row(0) + Self.row(1, user: "\"u1") + (2..<rows).map { Self.row($0) }.joined())
        #expect(result.status == 1 && result.users == ["u0"])
        #expect(result.errors.contains("line 3: the row that begins here is no CSV"), "\(result.errors)")
    }

    @Test("A quote in one row that is closed in another is an error, and no user of three lines") func twoQuotes() async throws {
        let rows = (0..<10).map { number in
            number == 4 ? Self.row(4, user: "\"u4") : number == 7 ? Self.row(7, user: "\"u7\"") : Self.row(number)
        }
        let result = try await convert("device_table.py", Self.header + rows.joined())
        #expect(result.status == 1 && result.users == ["u0", "u1", "u2", "u3"])
        #expect(result.errors.contains("line 6: the row that begins here is no CSV"), "\(result.errors)")
        // Closed in a way that makes a whole row of several lines.
        let whole = try await convert("device_table.py", Self.header + "\"u1,00aa,production\nu2\",00ab,production\n" + Self.row(3))
        #expect(whole.status == 2 && whole.users == ["u3"])
        #expect(whole.errors.contains("line 2: user has several lines: perhaps a quote is not closed"), "\(whole.errors)")
    }

    @Test(
        "Text after a closing quote, and a backslash before a quote, are errors",
        arguments: [#""ada"b,00aa,production"#, #""a\"b",00aa,production"#])
    func wrongQuotes(row: String) async throws {
        let result = try await convert("device_table.py", Self.header + row + "\n")
        #expect(result.status == 1 && result.users.isEmpty && result.errors.contains("line 2: "), "\(result)")
    }

    @Test(
        "A column that is named otherwise is an error and no empty user",
        arguments: [
            ("user_id,token,environment\n", "no column user;"), ("User,token,environment\n", "no column user;"),
            ("user,token\n", "no column environment;"), ("user,token,environment,user\n", "a column stands twice"),
            ("", "no column user, token"),
        ])
    func columns(header: String, words: String) async throws {
        let result = try await convert("device_table.py", header + (header.isEmpty ? "" : "u1,00aa,production,x\n"))
        #expect(result.status == 1 && result.users.isEmpty && result.errors.contains(words), "\(result)")
    }

    @Test("Rows that are too short or too long, and users that are a null in words or have a control character, are left out")
    func leftOut() async throws {
        let rows =
            "ada\nbob,00aa\ncy,00aa,production,x\n" + ["NULL", "\\N", "None", "(null)", "a\u{1}b"].map { Self.row(1, user: $0) }.joined()
        let result = try await convert("device_table.py", Self.header + rows + Self.row(2))
        #expect(result.status == 2 && result.users == ["u2"])
        #expect(result.errors.hasSuffix("1 written, 8 skipped\n"), "\(result.errors)")
    }

    private static func endpoint(_ attributes: String) -> String {
        #"{"EndpointArn":"arn:aws:sns:us-east-1:1:endpoint/APNS/shop/1","Attributes":{"Enabled":"true",\#(attributes)}}"#
    }

    @Test("Endpoints of SNS of another shape are left out one by one") func endpoints() async throws {
        let good = Self.endpoint(#""Token":"00aa","CustomUserData":"{\"u\":\" ada \"}""#)
        let number = Self.endpoint(#""Token":"00ab","CustomUserData":"{\"u\":7}""#)
        let bad = [
            "null", #""x""#, #"{"EndpointArn":"a/APNS/b","Attributes":[]}"#, Self.endpoint(#""Token":5"#),
            Self.endpoint(#""Token":"00aa","CustomUserData":"{\"u\":true}""#),
            Self.endpoint(#""Token":"00aa","CustomUserData":"{\"u\":{\"id\":5}}""#),
            Self.endpoint(#""Token":"00aa","CustomUserData":5"#), Self.endpoint(#""Token":"00aa","CustomUserData":"{\"u\":\"\\ud800\"}""#),
        ]
        let result = try await convert("sns.py --user-field u", #"{"Endpoints":[\#((bad + [good, number]).joined(separator: ","))]}"#)
        #expect(result.status == 2 && result.users == ["ada", "7"], "\(result)")
        #expect(result.errors.hasSuffix("2 written, 8 skipped\n") && !result.errors.contains("Traceback"), "\(result.errors)")
    }

    @Test("A device without a user, and a token that stands twice, are not passed over in silence") func doubtful() async throws {
        let quiet = try await convert("device_table.py", Self.header + Self.row(1) + Self.row(1) + Self.row(2, user: ""))
        #expect(quiet.status == 0 && quiet.users == ["u1", "u1", "null"])
        #expect(
            quiet.errors.contains("1 without a user:") && quiet.errors.contains("1 with the token of an earlier line"), "\(quiet.errors)")
        let two = try await convert("device_table.py", Self.header + Self.row(1) + Self.row(2) + Self.row(1, user: "other"))
        #expect(two.status == 2 && two.users == ["u1", "u2", "other"])
        #expect(two.errors.contains("line 4: the token of line 2 with another user"), "\(two.errors)")
        let plain = try await convert("device_table.py", Self.header + Self.row(1))
        #expect(plain.errors == "1 written, 0 skipped\n")
    }

    @Test("The field of SNS's users must be there, and must be named where the text is a JSON object") func fieldOfUsers() async throws {
        let endpoint = Self.endpoint(#""Token":"00aa","CustomUserData":"{\"userId\":\"ada\",\"plan\":\"pro\"}""#)
        let wrong = try await convert("sns.py --user-field userid", #"{"Endpoints":[\#(endpoint)]}"#)
        #expect(wrong.status == 1 && wrong.users.isEmpty && wrong.errors.contains("no CustomUserData has the field userid"), "\(wrong)")
        let unnamed = try await convert("sns.py", #"{"Endpoints":[\#(endpoint)]}"#)
        #expect(unnamed.status == 2 && unnamed.users.isEmpty && unnamed.errors.contains("--user-field (userId, plan)"), "\(unnamed)")
        let others = ["{}", " { } ", "[]", #"[\"ada\"]"#, #"{\"a\":{}}"#, String(repeating: "[", count: 100_000)]
        let nameless =
            others.map { Self.endpoint(#""Token":"00ab","CustomUserData":"\#($0)""#) } + [
                Self.endpoint(#""Token":"00ac","CustomUserData":"ada""#), Self.endpoint(#""Token":"00ad","CustomUserData":"7""#),
            ]
        let plain = try await convert("sns.py", #"{"Endpoints":[\#(nameless.joined(separator: ","))]}"#)
        #expect(plain.status == 2 && plain.users == ["ada", "7"] && plain.errors.hasSuffix("2 written, 6 skipped\n"), "\(plain)")
        let right = try await convert("sns.py --user-field userId", #"{"Endpoints":[\#(endpoint)]}"#)
        #expect(right.status == 0 && right.users == ["ada"], "\(right)")
    }

    @Test("What is no list of endpoints is an error", arguments: [#"{"Endpoints":null}"#, #"{"Endpoints":"x"}"#, "{}", "[]", "", "{"])
    func noEndpoints(text: String) async throws {
        let result = try await convert("sns.py", text)
        #expect(result.status == 1 && !result.errors.contains("Traceback"), "\(result)")
    }

    @Test("A torn export of OneSignal is an error as well") func oneSignal() async throws {
        let header = "identifier,device_type,invalid_identifier,external_user_id\n"
        let result = try await convert("onesignal.py", header + "00aa,0,f,ada\n00ab,0,f,\"bob\n00ac,0,f,cy\n")
        #expect(result.status == 1 && result.users == ["ada"] && result.errors.contains("line 3: "), "\(result)")
        let other = try await convert("onesignal.py", header.replacing("external_user_id", with: "user") + "00aa,0,f,ada\n")
        #expect(other.status == 1 && other.errors.contains("no column external_user_id"), "\(other)")
    }
}
