/// One fault of a body that is good JSON.
package struct JSONProblem: Sendable, Equatable {
    /// The place: a JSON pointer (RFC 6901). Empty for the whole body. A very long one ends early (``JSONProblems/maximumPointerBytes``).
    package let pointer: String
    /// The code for programs: `missing`, `wrong_type`, `too_long`, `too_short`, `too_many`, `out_of_range`, `unsupported_value`,
    /// `invalid_character`, `unknown_field`, or a caller's own word in `snake_case`.
    package let code: String
    /// The problem in words for people. They never show the value.
    package let detail: String

    package init(pointer: String, code: String, detail: String) {
        self.pointer = pointer
        self.code = code
        self.detail = detail
    }
}

/// The readers of one body record faults here, so that a client gets all of them at once.
package final class JSONProblems {
    /// How many faults of a body are reported: further ones are not worth it.
    package static let maximum = 50
    /// How many faults of one item among many are reported: an answer has up to a thousand such items.
    package static let maximumOfItem = 10
    /// A key of the body may be as long as the body. Of a longer pointer the beginning is reported, and `…`.
    package static let maximumPointerBytes = 1024

    package private(set) var list: [JSONProblem] = []
    private let maximum: Int

    package init(maximum: Int = JSONProblems.maximum) { self.maximum = maximum }

    package var isEmpty: Bool { list.isEmpty }
    package var isFull: Bool { list.count >= maximum }

    package func add(_ problem: JSONProblem) {
        guard !isFull else { return }
        guard problem.pointer.utf8.count > Self.maximumPointerBytes else { return list.append(problem) }
        let beginning = problem.pointer.beginning(ofBytes: Self.maximumPointerBytes)
        list.append(JSONProblem(pointer: beginning + "…", code: problem.code, detail: problem.detail))
    }
}

/// One step of a JSON pointer with `~` and `/` escaped (RFC 6901 section 3).
package func pointerStep(_ key: String) -> String {
    guard key.utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else { return "/" + key }
    var step = "/"
    for character in key.unicodeScalars {
        switch character {
        case "~": step += "~0"
        case "/": step += "~1"
        default: step.unicodeScalars.append(character)
        }
    }
    return step
}

extension String {
    /// As many whole characters (Unicode scalars) as have room, from the beginning.
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
