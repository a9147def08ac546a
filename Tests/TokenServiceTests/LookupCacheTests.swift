import HTTPTypes
import Logging
import Postgres
import PushModel
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit

@Suite("What every request asks the database for is looked up once for all of them", .timeLimit(.minutes(5)))
struct LookupCacheTests {
    private struct Refused: Error {}

    /// A cache whose lookups wait for a word and whose clock stands still.
    private final class Lookups: Sendable {
        static let memory: Duration = .seconds(5)

        let begun = Signal<String>()
        let answers = Signal<Result<Int?, any Error>>()
        private let clock = Mutex(ContinuousClock.now)

        func advance(by duration: Duration) { clock.withLock { $0 += duration } }

        func cache(lifetime: @escaping @Sendable (Int) -> Duration? = { _ in nil }) -> LookupCache<String, Int> {
            LookupCache(memory: Self.memory, lifetime: lifetime, now: { self.clock.withLock { $0 } }) { keys in
                self.begun.send(contentsOf: keys)
                guard let value = try await self.answers.next().get() else { return [:] }
                return keys.reduce(into: [:]) { $0[$1] = value }
            }
        }

        /// A lookup from beginning to end.
        func answer(_ value: Int?, _ cache: LookupCache<String, Int>) async throws {
            async let asked = cache.value("a")
            _ = try await begun.next()
            answers.send(.success(value))
            #expect(try await asked == value)
        }
    }

    @Test("Callers that ask together share one lookup") func sharedLookup() async throws {
        let lookups = Lookups()
        let cache = lookups.cache()
        let values = try await withThrowingTaskGroup(of: Int?.self) { group in
            for _ in 0..<100 { group.addTask { try await cache.value("a") } }
            _ = try await lookups.begun.next()
            lookups.answers.send(contentsOf: (1...100).map { _ in .success(7) })
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(values == Array(repeating: 7, count: 100))
        #expect(lookups.begun.waiting.isEmpty, "one lookup for all")
        // Another key is another matter.
        #expect(try await cache.value("b") == 7)
        #expect(lookups.begun.waiting == ["b"])
    }

    @Test("The cache asks about all keys that wait together, and asks once at a time") func manyKeys() async throws {
        let lookups = Lookups()
        let cache = lookups.cache()
        let first = Task { try await cache.value("a") }
        #expect(try await lookups.begun.next() == "a")
        // Each runs until it waits.
        let others = (0..<300).map { number in Task.immediate { try await cache.value("unknown \(number % 200)") } }
        #expect(lookups.begun.waiting.isEmpty)
        lookups.answers.send(.success(1))
        #expect(try await first.value == 1)
        _ = try await lookups.begun.next(200)
        // One answer for all of them.
        lookups.answers.send(.success(nil))
        for other in others { #expect(try await other.value == nil) }
        // A missing value is not remembered: the key may have been made just now.
        async let made = cache.value("unknown 7")
        #expect(try await lookups.begun.next() == "unknown 7")
        lookups.answers.send(.success(2))
        #expect(try await made == 2)
    }

    @Test("No caller waits while the cache looks a value up anew before its time is over") func earlyRefresh() async throws {
        let lookups = Lookups()
        let cache = lookups.cache()
        try await lookups.answer(1, cache)
        lookups.advance(by: Lookups.memory * 0.7)
        #expect(try await cache.value("a") == 1)
        #expect(lookups.begun.waiting.isEmpty)
        lookups.advance(by: Lookups.memory * 0.2)
        for _ in 1...3 { #expect(try await cache.value("a") == 1) }
        #expect(try await lookups.begun.next() == "a")
        #expect(lookups.begun.waiting.isEmpty, "one lookup for all")
        lookups.answers.send(.success(2))
        while try await cache.value("a") == 1 { await Task.yield() }
        // From the moment it was asked for.
        lookups.advance(by: Lookups.memory * 0.7)
        #expect(try await cache.value("a") == 2)
        #expect(lookups.begun.waiting.isEmpty)
    }

    @Test("The cache says at once what it remembers, and looks it up anew before its time is over") func remembered() async throws {
        let lookups = Lookups()
        let cache = lookups.cache()
        #expect(cache.remembered("a") == nil)
        #expect(lookups.begun.waiting.isEmpty, "an unknown key is asked for by those that wait for it")
        try await lookups.answer(1, cache)
        #expect(cache.remembered("a") == 1)
        lookups.advance(by: Lookups.memory * 0.9)
        #expect(cache.remembered("a") == 1)
        #expect(try await lookups.begun.next() == "a")
        lookups.advance(by: Lookups.memory * 0.2)
        #expect(cache.remembered("a") == nil)
        lookups.answers.send(.success(2))
        while cache.remembered("a") == nil { await Task.yield() }
        #expect(cache.remembered("a") == 2)
    }

    @Test("The cache keeps no value for longer than it is good") func limitedLifetime() async throws {
        let lookups = Lookups()
        let cache = lookups.cache(lifetime: { _ in .seconds(1) })
        try await lookups.answer(1, cache)
        #expect(try await cache.value("a") == 1)
        lookups.advance(by: .seconds(1))
        try await lookups.answer(nil, cache)
        // And nothing at all of what is not there.
        try await lookups.answer(3, cache)
    }

    @Test("The cache does not keep a value that was asked for before it was forgotten") func forgottenValue() async throws {
        let lookups = Lookups()
        let cache = lookups.cache()
        async let early = cache.value("a")
        _ = try await lookups.begun.next()
        cache.forget("a")
        async let late = cache.value("a")
        lookups.answers.send(contentsOf: [.success(1), .success(1)])
        _ = try await lookups.begun.next()
        _ = try await (early, late)
        cache.forget("a")
        try await lookups.answer(2, cache)
        #expect(try await cache.value("a") == 2)
    }

    @Test("A failure reaches the callers that wait and changes nothing") func failedLookup() async throws {
        let lookups = Lookups()
        let cache = lookups.cache()
        let refused = Task { try await cache.value("a") }
        _ = try await lookups.begun.next()
        lookups.answers.send(.failure(Refused()))
        await #expect(throws: Refused.self) { try await refused.value }
        try await lookups.answer(1, cache)
        // Away while the known value is still good: no caller notices, and the next one asks again.
        lookups.advance(by: Lookups.memory * 0.9)
        for _ in 1...2 {
            #expect(try await cache.value("a") == 1)
            _ = try await lookups.begun.next()
            lookups.answers.send(.failure(Refused()))
            while lookups.begun.waiting.isEmpty { #expect(try await cache.value("a") == 1) }
        }
        lookups.answers.send(.success(1))
    }

    @Test("The service looks a key up once for many requests and notes its use behind them") func keyLookup() async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory(), poolSize: 1) { pool, _ in
            let store = KeyStore(pool: pool)
            let key = APIKeyText.generate()
            _ = try await store.insert(
                key, app: nil, name: "orders", scopes: [.send], expiresAt: nil, requestsPerSecond: nil, by: .service)
            let before = try await Self.scans(pool)
            // No task writes uses down.
            let authenticator = Authenticator(
                store: store, uses: KeyUses(store: store, logger: Logger(label: "test")), hasStarted: { true })
            let found = try await withThrowingTaskGroup(of: Caller?.self) { group in
                for _ in 0..<100 { group.addTask { try await authenticator.caller(key) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(found.count == 100 && found.allSatisfy { $0?.keyID == key.id })
            #expect(try await Self.scans(pool) - before == 1)
        }
    }

    /// Before the bootstrap key is in the database, 401 would be wrong: callers give up at it.
    @Test("A service that has not started yet does not refuse an unknown key") func unknownKey() async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory(), poolSize: 1) { pool, _ in
            let (store, key, started) = (KeyStore(pool: pool), APIKeyText.generate(), Box<Bool>())
            let uses = KeyUses(store: store, logger: Logger(label: "test"))
            let authenticator = Authenticator(store: store, uses: uses, hasStarted: { started.value == true })
            await #expect(throws: StillStarting.self) { try await authenticator.caller(key) }
            #expect(APIError(cause: StillStarting()).status == .serviceUnavailable)
            try await store.insertBootstrap(key)
            #expect(try await authenticator.caller(key)?.keyID == key.id)
            await #expect(throws: StillStarting.self) { try await authenticator.caller(.generate()) }
            started.open(true)
            #expect(try await authenticator.caller(.generate()) == nil)
        }
    }

    /// How often a statement looked into the table of keys.
    private static func scans(_ pool: PostgresPool) async throws -> Int64 {
        try await pool.session { session in
            try session.execute("SELECT pg_stat_force_next_flush()")
            return try session.execute(
                "SELECT seq_scan + idx_scan AS scans FROM pg_stat_user_tables WHERE relname = 'api_keys'"
            ).only()["scans"]
        }
    }
}
