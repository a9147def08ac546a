import TokenServiceRegistry

/// An expression as a search in PostgreSQL.
extension TagExpression {
    /// The expression as the text of a `tsquery`, for `audience_words(tags, permission) @@ …`.
    var searchText: String {
        switch self {
        case .tag(let tag): "'" + tag.replacing("\\", with: "\\\\").replacing("'", with: "''") + "'"
        case .permission(let permission): "'" + permission.word + "'"
        case .not(let operand): "!(" + operand.searchText + ")"
        case .all(let operands): "(" + operands.map(\.searchText).joined(separator: " & ") + ")"
        case .any(let operands): "(" + operands.map(\.searchText).joined(separator: " | ") + ")"
        }
    }

    /// What PostgreSQL needs for it: 12 bytes for each word and each operator of two, a word's bytes and a zero.
    var searchBytes: Int {
        switch self {
        case .tag(let tag): 13 + tag.utf8.count
        case .permission(let permission): 13 + permission.word.utf8.count
        case .not(let operand): 12 + operand.searchBytes
        case .all(let operands), .any(let operands): operands.reduce(12 * (operands.count - 1)) { $0 + $1.searchBytes }
        }
    }

    /// - Parameter text: The text of an accepted notification. Nil if it has more tags or levels than an expression in a request may have.
    static func stored(_ text: String) -> TagExpression? {
        do {
            return try TagExpression(text)
        } catch {
            return nil
        }
    }

    /// The backend's tags that the expression names.
    var backendTags: Set<String> {
        switch self {
        case .tag(let word): InstallationTags.isOfApp(word: word) ? [] : [word]
        case .permission: []
        case .not(let operand): operand.backendTags
        case .all(let operands), .any(let operands): operands.reduce(into: []) { $0.formUnion($1.backendTags) }
        }
    }

    /// Words of tags of which each matching installation has at least one, as few as possible; nil if there are none. The index on tags
    /// does not know permissions.
    var neededTags: [String]? {
        switch self {
        case .tag(let tag): [tag]
        case .not, .permission: nil
        case .all(let operands): operands.compactMap(\.neededTags).min { $0.count < $1.count }
        case .any(let operands):
            operands.reduce(into: [String]?.some([])) { needed, operand in
                guard let more = operand.neededTags else { return needed = nil }
                needed?.append(contentsOf: more)
            }
        }
    }

    /// Other sets of the same kind: each matching installation has one tag of each of them.
    var neededAlternatives: [[String]] {
        switch self {
        case .all(let operands): operands.flatMap(\.neededAlternatives)
        case .tag, .permission, .not, .any: neededTags.map { [$0] } ?? []
        }
    }
}
