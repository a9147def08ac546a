/// Text that another program wrote, such as APNs' reason: it ends in PostgreSQL, in logs and on screens.
package enum OutsideText {
    /// APNs' longest reason has 27 bytes.
    package static let maximumBytes = 128

    /// Makes a text harmless, with U+FFFD for each control or format character: PostgreSQL refuses U+0000, and a terminal obeys the others.
    /// - Returns: nil if it is empty or longer than any reason.
    package static func harmless(_ text: String) -> String? {
        let bytes = text.utf8
        guard !bytes.isEmpty, bytes.count <= maximumBytes else { return nil }
        guard !bytes.allSatisfy({ (0x20..<0x7f).contains($0) }) else { return text }
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { scalars.append(isHarmless(scalar) ? scalar : "\u{fffd}") }
        return String(scalars)
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: false
        default: true
        }
    }
}
