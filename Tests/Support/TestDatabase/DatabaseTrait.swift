package import Testing

/// Gives a test a database of its own (``TestDatabase/current``) and drops it afterwards.
package struct DatabaseTrait: TestTrait, TestScoping {
    let migrations: String?

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let database = try await TestDatabase.create(migrations: migrations, poolSize: 8)
        do {
            try await TestDatabase.$current.withValue(database, operation: body)
        } catch {
            try await database.drop()
            throw error
        }
        try await database.drop()
    }
}

extension Trait where Self == DatabaseTrait {
    /// An empty database.
    package static var database: Self { Self(migrations: nil) }
    /// - Parameter migrations: A directory of `m0001_name.sql`.
    package static func database(migrations: String) -> Self { Self(migrations: migrations) }
}
