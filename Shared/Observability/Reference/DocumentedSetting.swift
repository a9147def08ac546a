/// One setting of a program, as `--help` and the handbook's reference show it.
package struct DocumentedSetting: Sendable {
    /// As swift-configuration reads it: `http.port` is the environment variable HTTP_PORT.
    package let key: String
    /// The default, `required` or `none`.
    package let fallback: String
    package let meaning: String

    package var variable: String { ConfigurationError.variable(key) }

    package init(_ key: String, _ fallback: String, _ meaning: String) {
        self.key = key
        self.fallback = fallback
        self.meaning = meaning
    }

    package static func markdown(_ settings: [DocumentedSetting]) -> String {
        MarkdownTable(
            "variable", "default", "meaning",
            rows: settings.map { ["`\($0.variable)`", MarkdownTable.code($0.fallback, unless: ["required", "none"]), $0.meaning] }
        ).text
    }

    /// Three columns for a terminal of 80.
    package static func help(_ settings: [DocumentedSetting]) -> String {
        let width = settings.map(\.variable.count).max() ?? 0
        let rows = settings.map { setting in
            "  \(setting.variable)\(String(repeating: " ", count: width - setting.variable.count))  \(setting.fallback)\n"
                + wrapped(setting.meaning.filter { $0 != "`" }, to: columns - indent).map { String(repeating: " ", count: indent) + $0 }
                .joined(separator: "\n")
        }
        return "Settings are environment variables (name, default, meaning):\n\n" + rows.joined(separator: "\n")
    }

    private static let indent = 6
    /// One less than 80: ArgumentParser breaks a line that fills it to its end.
    private static let columns = 79

    private static func wrapped(_ text: String, to width: Int) -> [String] {
        text.split(separator: " ").reduce(into: [String]()) { lines, word in
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
    }
}
