package import Foundation

/// One statement of the token service, as its sources write it.
package struct SourceStatement: Sendable {
    /// `File.function`; a function's second one is `File.function 2`.
    package let name: String
    /// With parameters where the sources interpolate values, as in `PostgresQuery`.
    package let sql: String

    package static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../../Services/TokenService/Core").standardizedFileURL

    /// Literals that begin with a command.
    package static func all() throws -> [SourceStatement] {
        let files = (FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects ?? []).compactMap {
            $0 as? URL
        }
        return try files.filter { $0.pathExtension == "swift" }.sorted { $0.path < $1.path }.flatMap { file in
            statements(of: try String(contentsOf: file, encoding: .utf8), in: file.deletingPathExtension().lastPathComponent)
        }
    }

    private static func statements(of text: String, in file: String) -> [SourceStatement] {
        let literal = /"""\n(?<long>[\s\S]*?)\n *"""|"(?<short>[^"\n]*)"/
        let functions = text.matches(of: /\b(?:func|static let) (\w+)/)
        var counts: [String: Int] = [:]
        return text.matches(of: literal).compactMap { match in
            let sql = numbered(String(match.output.long ?? match.output.short ?? ""))
            guard sql.contains(/^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|MERGE INTO)\s/) else { return nil }
            let name = "\(file).\(functions.last { $0.range.lowerBound < match.range.lowerBound }?.output.1 ?? "")"
            counts[name, default: 0] += 1
            return SourceStatement(name: counts[name] == 1 ? name : "\(name) \(counts[name] ?? 0)", sql: sql)
        }
    }

    private static func numbered(_ text: String) -> String {
        var (sql, rest, count) = ("", text[...], 0)
        while let start = rest.range(of: #"\("#) {
            sql += rest[..<start.lowerBound]
            count += 1
            sql += "$\(count)"
            var depth = 1
            rest = rest[start.upperBound...].drop { character in
                if character == "(" { depth += 1 }
                if character == ")" { depth -= 1 }
                return depth > 0
            }.dropFirst()
        }
        return (sql + rest).replacing("\\\\", with: "\\")
    }
}
