package import Foundation

/// One statement of the token service, as its sources write it.
package struct SourceStatement: Sendable {
    /// `Type.function`; a function's second one is `Type.function 2`.
    package let name: String
    /// The type in whose declaration or extension it stands.
    package let type: String
    /// With parameters where the sources interpolate values, as in `PostgresQuery`.
    package let sql: String
    /// The interpolated expressions: `$1` is the first.
    package let parameters: [String]

    package static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../../Services/TokenService").standardizedFileURL

    /// Literals that begin with a command, with the parts in them: `\(part(…))` stands for the texts of the type's function `part`, each in
    /// a statement of its own. A part that begins with a command is a statement too, if its function is not private.
    package static func all() throws -> [SourceStatement] {
        let literals = try files().flatMap { file in
            SourceLiteral.all(in: try String(contentsOf: file, encoding: .utf8), file.deletingPathExtension().lastPathComponent)
        }
        let uses = Set(literals.flatMap { literal in literal.calls.map { "\(literal.type).\($0.name)" } })
        let parts = Dictionary(grouping: literals.filter { $0.isQuery && uses.contains($0.name) }, by: \.name)
        var counts: [String: Int] = [:]
        return literals.filter { !$0.isPrivate || parts[$0.name] == nil }.flatMap { literal in
            literal.texts(with: parts).compactMap { text -> SourceStatement? in
                let (sql, parameters) = numbered(text)
                guard sql.contains(/^\s*(\(?SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|MERGE INTO)\s/) else { return nil }
                counts[literal.name, default: 0] += 1
                let count = counts[literal.name] ?? 0
                return SourceStatement(
                    name: count == 1 ? literal.name : "\(literal.name) \(count)", type: literal.type, sql: sql, parameters: parameters)
            }
        }
    }

    /// The views and the SQL functions of the schema. A function's arguments are parameters; a row that it is given is one of its caller's
    /// app. Functions in PL/pgSQL are not among them: they make statements of texts.
    package static func ofSchema() throws -> [SourceStatement] {
        let schema = try String(contentsOf: folder.appending(path: "Core/Migrations/m0001_schema.sql"), encoding: .utf8)
            .replacing(/--[^\n]*/, with: "")
        let relations = Set(schema.matches(of: /(?m)^CREATE (?:TABLE|VIEW) (\w+)/).map { String($0.output.1) })
        let views = schema.matches(of: /(?m)^CREATE VIEW (\w+) AS\s([\s\S]*?);$/).map { match in
            SourceStatement(name: String(match.output.1), type: "VIEW", sql: String(match.output.2), parameters: [])
        }
        let function =
            /(?m)^CREATE FUNCTION (\w+)\(([^)]*)\)[^;]*?LANGUAGE sql[^;]*?\n(?:RETURN\s([\s\S]*?);|BEGIN ATOMIC\s([\s\S]*?);\nEND;)$/
        let functions = schema.matches(of: function).map { match in
            let arguments = String(match.output.2).replacing("\"", with: "").split(separator: ",").map { argument in
                argument.split(whereSeparator: \.isWhitespace).map { String($0) }
            }
            let row = arguments.first { relations.contains($0[1]) }
            let values = arguments.filter { !relations.contains($0[1]) }.map { $0[0] }
            let body = String(match.output.3 ?? match.output.4 ?? "").replacing(/[\w."]+/) { word in
                values.firstIndex(of: String(word.output).replacing("\"", with: "")).map { "$\($0 + 1)" } ?? String(word.output)
            }
            let query = match.output.3 == nil ? body : "SELECT \(body)"
            return SourceStatement(
                name: String(match.output.1), type: "FUNCTION",
                sql: row.map { "SELECT (\(query)) FROM \($0[1]) \($0[0]) WHERE \($0[0]).app_id = $\(values.count + 1)" } ?? query,
                parameters: values.map { $0 == "of_app" ? "app" : $0 } + ["app"])
        }
        return views + functions
    }

    fileprivate static func files() -> [URL] {
        (FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects ?? []).compactMap { $0 as? URL }
            .filter { $0.pathExtension == "swift" }.sorted { $0.path < $1.path }
    }

    /// The same statement without one of its comparisons with an app, for each of them.
    package func withoutOneComparison() -> [SourceStatement] {
        let comparison = /(\w+\.)?app_id = (\$\d+|\w+\.app(_id)?)( AND)?/
        return sql.matches(of: comparison).map { match in
            var sql = sql
            sql.replaceSubrange(match.range, with: match.output.4 == nil ? "true" : "")
            return SourceStatement(name: name, type: type, sql: sql, parameters: parameters)
        }
    }

    private static func numbered(_ text: String) -> (sql: String, parameters: [String]) {
        var (sql, rest, parameters) = ("", text[...], [String]())
        while let start = rest.range(of: #"\("#) {
            sql += rest[..<start.lowerBound]
            let expression = rest[start.upperBound...].balanced
            parameters.append(String(expression))
            sql += "$\(parameters.count)"
            rest = rest[expression.endIndex...].dropFirst()
        }
        return ((sql + rest).replacing("\\\\", with: "\\"), parameters)
    }
}

/// A literal of the sources, as it stands there.
private struct SourceLiteral {
    /// `Type.function`
    let name: String
    let type: String
    let text: String
    let isPrivate: Bool
    /// Its function makes a query.
    let isQuery: Bool

    static func all(in text: String, _ file: String) -> [SourceLiteral] {
        let literal = /"""\n(?<long>[\s\S]*?)\n *"""|"(?<short>[^"\n]*)"/
        let function =
            /(?<private>private )?(?:static )?\b(?:func|static let) (?<name>\w+)(?<query>\([^{]*\) -> PostgresQuery \{)?/
        let functions = text.matches(of: function)
        let types = text.matches(of: SourceType.beginning)
        return text.matches(of: literal).map { match in
            let function = functions.last { $0.range.lowerBound < match.range.lowerBound }?.output
            let type = types.last { $0.range.lowerBound < match.range.lowerBound }.map { String($0.output.1) } ?? file
            return SourceLiteral(
                name: "\(type).\(function?.name ?? "")", type: type, text: String(match.output.long ?? match.output.short ?? ""),
                isPrivate: function?.private != nil, isQuery: function?.query != nil)
        }
    }

    /// The calls of functions that the whole of an interpolation is.
    var calls: [(name: String, range: Range<String.Index>)] {
        text.matches(of: /\\\((?:Self\.)?(\w+)\(/).compactMap { match in
            let arguments = text[match.range.upperBound...].balanced
            guard let end = text.index(arguments.endIndex, offsetBy: 2, limitedBy: text.endIndex) else { return nil }
            return (String(match.output.1), match.range.lowerBound..<end)
        }
    }

    /// One text for each combination of its parts.
    func texts(with parts: [String: [SourceLiteral]]) -> [String] {
        calls.reversed().reduce([text]) { texts, call in
            guard let alternatives = parts["\(type).\(call.name)"] else { return texts }
            return texts.flatMap { text in
                alternatives.flatMap { $0.texts(with: parts) }.map { text.replacingCharacters(in: call.range, with: $0) }
            }
        }
    }
}

extension Substring {
    /// Up to the parenthesis that closes one before it.
    fileprivate var balanced: Substring {
        var depth = 1
        return prefix { character in
            if character == "(" { depth += 1 }
            if character == ")" { depth -= 1 }
            return depth > 0
        }
    }
}

/// A declaration or an extension of a type in the sources of the token service.
package struct SourceType: Sendable {
    package let name: String
    package let text: String

    fileprivate static var beginning: Regex<(Substring, Substring)> { /(?m)^(?:\w+ )*(?:struct|enum|class|actor|extension) (\w+)/ }

    package static func all() throws -> [SourceType] {
        try SourceStatement.files().flatMap { file in
            let text = try String(contentsOf: file, encoding: .utf8)
            let types = text.matches(of: beginning)
            let ends = types.dropFirst().map(\.range.lowerBound) + [text.endIndex]
            return zip(types, ends).map { type, end in
                SourceType(name: String(type.output.1), text: String(text[type.range.lowerBound..<end]))
            }
        }
    }
}
