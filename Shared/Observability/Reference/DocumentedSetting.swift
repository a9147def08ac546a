/// A declared setting (``Setting``, ``FileSetting``), as `--help`, the handbook's reference and the search for misspelt names see it.
package protocol DocumentedSetting: Sendable {
    /// The key as swift-configuration reads it: `http.port` is the environment variable HTTP_PORT.
    var key: String { get }
    /// The default, `required` or `none`.
    var fallback: String { get }
    /// The allowed values, such as `1 to 3600`; empty if the meaning says it.
    var values: String { get }
    var meaning: String { get }
}

extension DocumentedSetting {
    package var variable: String { ConfigurationError.variable(key) }

    /// Makes the error of a value that only the reader of the setting can judge.
    package func error(expected: String, given: String? = nil) -> ConfigurationError {
        ConfigurationError(key, expected: expected, given: given)
    }
}

extension [any DocumentedSetting] {
    package var markdown: String {
        MarkdownTable(
            "variable", "default", "values", "meaning",
            rows: map {
                ["`\($0.variable)`", MarkdownTable.code($0.fallback, unless: ["required", "none"]), $0.values, $0.meaning]
            }
        ).text
    }

    /// The settings as text for a terminal of 80 columns: a line with name and default, below it the values and the meaning.
    package var help: String {
        let width = map(\.variable.count).max() ?? 0
        let rows = map { setting in
            let words = (setting.values.isEmpty ? "" : setting.values + ": ") + setting.meaning
            return "  \(setting.variable)\(String(repeating: " ", count: width - setting.variable.count))  \(setting.fallback)\n"
                + Self.wrapped(words.filter { $0 != "`" }).map { Self.indent + $0 }.joined(separator: "\n")
        }
        return "Settings are environment variables (name, default, values and meaning):\n\n" + rows.joined(separator: "\n")
    }

    private static var indent: String { "      " }

    /// Wraps to one column less than 80: ArgumentParser breaks a line that fills it to its end.
    private static func wrapped(_ text: String) -> [String] {
        let width = 79 - indent.count
        return text.split(separator: " ").reduce(into: [String]()) { lines, word in
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
    }
}
