import StrictJSON
import TokenServiceRegistry

/// One word of a tag expression, and where it begins.
struct TagToken: Equatable {
    enum Kind: Equatable {
        case tag(String)
        case permission(ReportedPermission)
        case and, or, not, open, close, end
    }

    let kind: Kind
    /// The first character is 1. Characters are Unicode scalars, as programs count them.
    let position: Int

    /// The token's name in an error. Tags are not shown: a client may log errors anywhere.
    var name: String {
        switch kind {
        case .tag: "tag"
        case .permission: "permission"
        case .and: "AND"
        case .or: "OR"
        case .not: "NOT"
        case .open: "'('"
        case .close: "')'"
        case .end: "end"
        }
    }

    /// Whether a tag may stand without quotes.
    private static func isPlain(_ tag: String) -> Bool {
        !["AND", "OR", "NOT", ""].contains(tag) && tag.unicodeScalars.allSatisfy { isPlain($0) }
    }

    /// Signs that other languages use as operators must be quoted, so that a sender cannot write `!muted` and mean the tag `!muted`.
    static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        !scalar.properties.isWhitespace && scalar.value >= 0x20 && scalar.value != 0x7f && !#"()"'\!&|,;"#.unicodeScalars.contains(scalar)
    }

    /// The tag in an expression: bare, or in quotes if it could be read as another word.
    static func text(of tag: String) -> String {
        guard !isPlain(tag) else { return tag }
        var text = "\""
        for scalar in tag.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { text += "\\" }
            text.unicodeScalars.append(scalar)
        }
        return text + "\""
    }
}

/// Cuts a tag expression into its words.
struct TagScanner {
    private let scalars: [Unicode.Scalar]
    private var index = 0

    init(_ text: String) { scalars = Array(text.unicodeScalars) }

    mutating func next() throws(TagExpression.Fault) -> TagToken {
        while index < scalars.count, scalars[index].properties.isWhitespace { index += 1 }
        let position = index + 1
        guard index < scalars.count else { return TagToken(kind: .end, position: position) }
        switch scalars[index] {
        case "(":
            index += 1
            return TagToken(kind: .open, position: position)
        case ")":
            index += 1
            return TagToken(kind: .close, position: position)
        case "\"": return TagToken(kind: try quoted(), position: position)
        default: return try word()
        }
    }

    private mutating func word() throws(TagExpression.Fault) -> TagToken {
        let start = index
        while index < scalars.count, TagToken.isPlain(scalars[index]) { index += 1 }
        if index < scalars.count, !scalars[index].properties.isWhitespace, !["(", ")"].contains(scalars[index]) {
            throw .init(at: index + 1, "a sign that must stand in quotes: write \"…\" around the tag, and AND, OR and NOT as words")
        }
        var text = ""
        text.unicodeScalars.append(contentsOf: scalars[start..<index])
        let kind: TagToken.Kind =
            switch text {
            case "AND": .and
            case "OR": .or
            case "NOT": .not
            default: try checked(text, at: start + 1)
            }
        return TagToken(kind: kind, position: start + 1)
    }

    private mutating func quoted() throws(TagExpression.Fault) -> TagToken.Kind {
        let start = index + 1
        var text = ""
        index += 1
        while index < scalars.count, scalars[index] != "\"" {
            if scalars[index] == "\\" {
                index += 1
                guard index < scalars.count, ["\"", "\\"].contains(scalars[index]) else {
                    throw .init(at: index, "after a backslash only a quote or a backslash may stand")
                }
            }
            text.unicodeScalars.append(scalars[index])
            index += 1
        }
        guard index < scalars.count else { throw .init(at: start, "the quote that begins here is never closed") }
        index += 1
        return try checked(text, at: start)
    }

    /// Takes the tags that a backend may set, and after `app:` those that an app may report.
    private func checked(_ word: String, at position: Int) throws(TagExpression.Fault) -> TagToken.Kind {
        let tag = InstallationTags.isOfApp(word: word) ? InstallationTags.appTag(ofWord: word) : word
        guard (1...InstallationTags.maximumTagBytes).contains(tag.utf8.count), !tag.utf8.contains(where: { $0.isControl }) else {
            throw .init(at: position, "a tag has 1 to \(InstallationTags.maximumTagBytes) bytes of UTF-8 without control characters")
        }
        guard ReportedPermission.isWord(word) else { return .tag(word) }
        guard let permission = ReportedPermission(word: word) else {
            let known = ReportedPermission.allCases.map(\.rawValue).joined(separator: ", ")
            throw .init(at: position, "after permission: stands one of \(known)")
        }
        return .permission(permission)
    }
}
