package import TokenServiceRegistry

/// `beta AND (staff OR app:football) AND NOT muted`: selects installations by their tags and their permission.
package indirect enum TagExpression: Equatable, Sendable {
    /// A tag of the backend, or `app:` and a tag of the app (``InstallationTags``).
    case tag(String)
    /// `permission:denied`
    case permission(ReportedPermission)
    case not(TagExpression)
    /// All of at least two expressions hold.
    case all([TagExpression])
    /// Any of at least two expressions holds.
    case any([TagExpression])
}

extension TagExpression {
    /// The most bytes of a request's text. The canonical text may be a little longer.
    package static let maximumBytes = 8192
    package static let maximumTerms = 100
    package static let maximumDepth = 16
    /// The most bytes of its search (``searchBytes``): PostgreSQL stores it within a row of 8 KiB.
    package static let maximumSearchBytes = 7168

    /// The fault in a text, and its position.
    package struct Fault: Error, Equatable, CustomStringConvertible {
        /// The first character is 1. Characters are Unicode scalars.
        package let position: Int
        package let message: String

        init(at position: Int, _ message: String) {
            self.position = position
            self.message = message
        }

        package var description: String { "at character \(position): \(message)" }
    }

    /// Reads `ios-17 AND (beta OR staff) AND NOT muted`. NOT binds closest, then AND, then OR; the operators are in capitals. A tag with
    /// blanks, or one that looks like an operator, stands in double quotes, in which `\"` is a quote and `\\` a backslash.
    /// `app:beta` stands for a tag of the app, `permission:denied` for the permission that the app last reported.
    package init(_ text: String) throws(Fault) {
        var parser = try TagParser(text)
        self = try parser.expression()
        guard searchBytes <= Self.maximumSearchBytes else {
            throw Fault(
                at: 1,
                """
                its tags take \(searchBytes) bytes, 13 more counted for each and 12 for each AND, OR and NOT; \(Self.maximumSearchBytes) \
                are allowed
                """
            )
        }
    }
}

/// Recursive descent; ``TagExpression/maximumDepth`` bounds the recursion.
private struct TagParser {
    private var scanner: TagScanner
    private var token: TagToken
    private var terms = 0
    private var depth = 0

    init(_ text: String) throws(TagExpression.Fault) {
        scanner = TagScanner(text)
        token = try scanner.next()
    }

    mutating func expression() throws(TagExpression.Fault) -> TagExpression {
        let whole = try alternatives()
        guard token.kind == .end else { throw unexpected("AND, OR or the end") }
        return whole
    }

    private mutating func alternatives() throws(TagExpression.Fault) -> TagExpression {
        var operands = [try conjunction()]
        while token.kind == .or {
            try advance()
            operands.append(try conjunction())
        }
        guard operands.count > 1 else { return operands[0] }
        return .any(operands.flatMap { if case .any(let inner) = $0 { inner } else { [$0] } })
    }

    private mutating func conjunction() throws(TagExpression.Fault) -> TagExpression {
        var operands = [try factor()]
        while token.kind == .and {
            try advance()
            operands.append(try factor())
        }
        guard operands.count > 1 else { return operands[0] }
        return .all(operands.flatMap { if case .all(let inner) = $0 { inner } else { [$0] } })
    }

    private mutating func factor() throws(TagExpression.Fault) -> TagExpression {
        switch token.kind {
        case .tag(let tag):
            try take()
            return .tag(tag)
        case .permission(let permission):
            try take()
            return .permission(permission)
        case .not:
            try descend()
            let operand = try factor()
            depth -= 1
            return .not(operand)
        case .open:
            try descend()
            let inner = try alternatives()
            guard token.kind == .close else { throw unexpected("AND, OR or ')'") }
            depth -= 1
            try advance()
            return inner
        case .and, .or, .close, .end: throw unexpected("a tag, NOT or '('")
        }
    }

    private mutating func take() throws(TagExpression.Fault) {
        terms += 1
        guard terms <= TagExpression.maximumTerms else {
            throw .init(at: token.position, "more than \(TagExpression.maximumTerms) tags")
        }
        try advance()
    }

    private mutating func descend() throws(TagExpression.Fault) {
        depth += 1
        guard depth <= TagExpression.maximumDepth else {
            throw .init(at: token.position, "nested deeper than \(TagExpression.maximumDepth) levels of NOT and parentheses")
        }
        try advance()
    }

    private mutating func advance() throws(TagExpression.Fault) { token = try scanner.next() }

    private func unexpected(_ expected: String) -> TagExpression.Fault {
        TagExpression.Fault(at: token.position, "unexpected \(token.name), where \(expected) is expected")
    }
}

extension TagExpression: CustomStringConvertible {
    /// One text for each expression, which parses to the same expression again.
    package var description: String {
        switch self {
        case .tag(let tag): TagToken.text(of: tag)
        case .permission(let permission): TagToken.text(of: permission.word)
        case .not(let operand): "NOT " + operand.operand(of: .not)
        case .all(let operands): operands.map { $0.operand(of: .all) }.joined(separator: " AND ")
        case .any(let operands): operands.map { $0.operand(of: .any) }.joined(separator: " OR ")
        }
    }

    private enum Operation: Int, Comparable {
        case any, all, not
        static func < (left: Operation, right: Operation) -> Bool { left.rawValue < right.rawValue }
    }

    private var operation: Operation? {
        switch self {
        case .tag, .permission: nil
        case .not: .not
        case .all: .all
        case .any: .any
        }
    }

    /// Writes the expression in parentheses if it binds less than the operation around it.
    private func operand(of outer: Operation) -> String {
        guard let operation, operation < outer || (operation == outer && outer != .not) else { return description }
        return "(" + description + ")"
    }
}
