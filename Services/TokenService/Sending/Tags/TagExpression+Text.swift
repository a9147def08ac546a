import TokenServiceRegistry

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

    /// In parentheses if it binds less than the operation around it.
    private func operand(of outer: Operation) -> String {
        guard let operation, operation < outer || (operation == outer && outer != .not) else { return description }
        return "(" + description + ")"
    }
}
