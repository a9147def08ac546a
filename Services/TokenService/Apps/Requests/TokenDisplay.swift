import TokenServiceKit

/// How much of its tokens an answer shows.
package enum TokenDisplay: String, CaseIterable, Sendable {
    /// The last six digits: enough for a person to recognise, too few to send with.
    case hints
    /// Shows the token to keys with the scope `devices`, which may register tokens as well.
    case full
}

extension APICall {
    /// The value of `tokens`.
    /// - Throws: ``APIError`` 403 if the caller asks for whole tokens without the scope `devices`.
    package func tokenDisplay() throws -> TokenDisplay {
        let shown = try choice("tokens", of: TokenDisplay.self) ?? .hints
        guard shown == .hints || caller.scopes.contains(.devices) else { throw APIError.forbidden([.devices]) }
        return shown
    }
}

extension Parameter {
    package static let tokens = Parameter.query(
        "tokens", .words(TokenDisplay.self).standard("hints"), "`full` shows whole tokens and needs the scope devices.")
}
