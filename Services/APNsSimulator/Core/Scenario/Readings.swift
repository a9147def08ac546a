import StrictJSON

/// How the simulator behaves where Apple's pages, Apple's engineers and other clients of APNs disagree (docs/apns.md). A scenario chooses.
package struct Readings: Sendable, Equatable {
    package enum TokenUpdates: String, Reading {
        case connection
        case team
        case teamNew = "team_new"

        static let field = "token_updates"
        var meaning: String {
            switch self {
            case .connection: "a connection may show another provider token every 20 minutes"
            case .team: "a team may: the one before is no longer good for 20 minutes"
            case .teamNew: "a team may show a new one every 20 minutes; all stay good"
            }
        }
    }

    package enum TokenRefusal: String, Reading {
        case request
        case connection

        static let field = "token_refusal"
        var meaning: String {
            switch self {
            case .request: "the 429 for too many tokens is the answer to one request"
            case .connection: "a connection that got this 429 answers nothing else any more"
            }
        }
    }

    package enum Stored: String, Reading {
        case topic
        case app
        case collapseID = "collapse_id"

        static let field = "stored"
        var meaning: String {
            switch self {
            case .topic: "a device that is off keeps the newest push of each topic"
            case .app: "it keeps the newest push of each bundle id"
            case .collapseID: "it keeps all; the same collapse id replaces the earlier one"
            }
        }
    }

    package enum Starts: String, Reading {
        case shown
        case lost

        static let field = "starts"
        var meaning: String {
            switch self {
            case .shown: "a start that APNs accepts begins a Live Activity"
            case .lost: "APNs accepts a start with 200, and nothing appears"
            }
        }
    }

    package var tokenUpdates = TokenUpdates.connection
    package var tokenRefusal = TokenRefusal.request
    package var stored = Stored.topic
    package var starts = Starts.shown

    package init() {}

    /// A scenario's `readings`.
    init(_ fields: JSONObjectReader) {
        var reader = fields
        tokenUpdates = Self.choice(&reader, else: tokenUpdates)
        tokenRefusal = Self.choice(&reader, else: tokenRefusal)
        stored = Self.choice(&reader, else: stored)
        starts = Self.choice(&reader, else: starts)
        reader.finish()
    }

    private static func choice<Choice: Reading>(_ reader: inout JSONObjectReader, else standard: Choice) -> Choice {
        reader.optionalChoice(Choice.field, of: Choice.self) ?? standard
    }

    func write(to object: inout JSONWriter) {
        object.field(TokenUpdates.field, tokenUpdates.rawValue)
        object.field(TokenRefusal.field, tokenRefusal.rawValue)
        object.field(Stored.field, stored.rawValue)
        object.field(Starts.field, starts.rawValue)
    }

    // MARK: For people

    private static let all: [[any Reading]] = [TokenUpdates.allCases, TokenRefusal.allCases, Stored.allCases, Starts.allCases]

    /// The text for `--help`. The first value of each field is its default.
    package static let help = all.map { values in
        let lines = values.map { "    \($0.value)\(String(repeating: " ", count: max(1, 13 - $0.value.count)))\($0.meaning)" }
        return (["  \(type(of: values[0]).field)"] + lines).joined(separator: "\n")
    }.joined(separator: "\n")

    /// The readings as rows of the README's table.
    package static let rows = all.flatMap { values in
        values.enumerated().map { index, value in
            "| \(index == 0 ? "`\(type(of: value).field)`" : "") | `\(value.value)` | \(value.meaning) |"
        }
    }
}

/// One question about APNs, with its possible answers.
protocol Reading: RawRepresentable<String>, CaseIterable, Sendable, Equatable {
    /// The field in a scenario's `readings`.
    static var field: String { get }
    /// The meaning in words for people.
    var meaning: String { get }
}

extension Reading {
    fileprivate var value: String { rawValue }
}
