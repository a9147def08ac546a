extension String {
    /// As many whole characters (Unicode scalars) as have room.
    package func beginning(ofBytes maximum: Int) -> String {
        guard utf8.count > maximum else { return self }
        var (text, bytes) = (String.UnicodeScalarView(), 0)
        for scalar in unicodeScalars {
            bytes += UTF8.width(scalar)
            guard bytes <= maximum else { break }
            text.append(scalar)
        }
        return String(text)
    }
}
