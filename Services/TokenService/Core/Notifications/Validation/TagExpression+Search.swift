/// How PostgreSQL is asked who fulfils an expression.
extension TagExpression {
    /// As the text of a `tsquery`, for `array_to_tsvector(tags) @@ …`.
    var searchText: String {
        switch self {
        case .tag(let tag): "'" + tag.replacing("\\", with: "\\\\").replacing("'", with: "''") + "'"
        case .not(let operand): "!(" + operand.searchText + ")"
        case .all(let operands): "(" + operands.map(\.searchText).joined(separator: " & ") + ")"
        case .any(let operands): "(" + operands.map(\.searchText).joined(separator: " | ") + ")"
        }
    }

    /// - Parameter text: What an accepted notification stores. Nil where it is longer than what a request may say.
    static func stored(_ text: String) -> TagExpression? {
        do {
            return try TagExpression(text)
        } catch {
            return nil
        }
    }

    /// Tags of which each installation that fulfils the expression has at least one, as few as possible; nil where there are none.
    var neededTags: [String]? {
        switch self {
        case .tag(let tag): [tag]
        case .not: nil
        case .all(let operands): operands.compactMap(\.neededTags).min { $0.count < $1.count }
        case .any(let operands):
            operands.reduce(into: [String]?.some([])) { needed, operand in
                guard let more = operand.neededTags else { return needed = nil }
                needed?.append(contentsOf: more)
            }
        }
    }

    /// The same said in other ways: whoever fulfils the expression has one tag of each of these.
    var neededAlternatives: [[String]] {
        switch self {
        case .all(let operands): operands.flatMap(\.neededAlternatives)
        case .tag, .not, .any: neededTags.map { [$0] } ?? []
        }
    }
}
