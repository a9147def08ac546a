/// How much of its tokens an answer shows.
package enum TokenDisplay: String, CaseIterable, Sendable {
    /// The last six digits: enough for a person to recognise, too few to send with.
    case hints
    /// For keys with the scope `devices`, which may register tokens as well.
    case full
}
