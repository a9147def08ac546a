internal import FoundationEssentials

/// One step of the schema: SQL that runs once per database, in a transaction of its own.
package struct Migration: Equatable, Sendable {
    package let version: Int
    package let name: String
    package let sql: String

    package init(version: Int, name: String, sql: String) {
        self.version = version
        self.name = name
        self.sql = sql
    }

    /// Reads every `m0001_name.sql` of a directory, in order. Another `.sql` file there is an error: it would be forgotten silently.
    static func files(in directory: String) throws(MigrationError) -> [Migration] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw unusable("the migrations directory \(directory) cannot be read")
        }
        var migrations: [Migration] = []
        for file in names.sorted() where file.hasSuffix(".sql") {
            guard let (version, name) = parse(file) else { throw unusable("\(file) is not named like m0001_name.sql") }
            guard let bytes = FileManager.default.contents(atPath: "\(directory)/\(file)"),
                let sql = String(validating: bytes, as: UTF8.self)
            else { throw unusable("\(file) cannot be read as UTF-8") }
            migrations.append(Migration(version: version, name: name, sql: sql))
        }
        return migrations
    }

    private static func parse(_ file: String) -> (version: Int, name: String)? {
        guard file.first == "m", let separator = file.firstIndex(of: "_") else { return nil }
        let digits = file[file.index(after: file.startIndex)..<separator]
        let name = file[file.index(after: separator)...].dropLast(".sql".count)
        guard digits.count == 4, digits.utf8.allSatisfy({ (48...57).contains($0) }), let version = Int(digits), version > 0, !name.isEmpty
        else { return nil }
        return (version, String(name))
    }

    static func unusable(_ message: String) -> MigrationError { MigrationError(code: .unusableFiles, message: message) }
}
