import Configuration
import HTTPTypes
import Hummingbird
import NIOCore
import Observability
import Synchronization
import Testing

@testable import TokenServiceAPI
@testable import TokenServiceApps

@Suite("A large answer goes to its connection in pieces")
struct WriterOfPiecesTests {
    /// What a writer got. Nil: the end.
    private final class Record: Sendable {
        private let pieces = Mutex<[ByteBuffer?]>([])

        var written: [ByteBuffer?] { pieces.withLock { $0 } }
        func append(_ piece: ByteBuffer?) { pieces.withLock { $0.append(piece) } }
    }

    private struct Recorder: ResponseBodyWriter {
        let record: Record

        mutating func write(_ buffer: ByteBuffer) async throws { record.append(buffer) }
        consuming func finish(_ trailingHeaders: HTTPFields?) async throws { record.append(nil) }
    }

    @Test(
        "No piece of an answer is longer than 64 KiB or keeps the whole, and all together are the answer",
        arguments: [1, 65_536, 65_537, 2_000_000])
    func pieces(length: Int) async throws {
        let metrics = LimitMetrics(PrometheusMetrics())
        let places = SharedLimit(1, share: 1, shareOfApp: 1, reason: .requests, metrics: metrics)
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: [:]))
        let shedding = LoadShedding(limits: try RequestLimits(config), metrics: metrics)
        let place = try places.enter(Caller(keyID: "orders", app: nil, scopes: [.read], requestsPerSecond: nil))
        try shedding.begin()
        let text = ByteBuffer(bytes: (0..<length).map { UInt8(truncatingIfNeeded: $0 / 251) })
        let record = Record()
        let answer = Admission(place, shedding).held(by: ResponseBody(byteBuffer: text))
        try await answer.write(Recorder(record: record))
        let pieces = record.written.dropLast().compactMap(\.self)
        #expect(record.written.count == pieces.count + 1 && record.written.last == .some(nil))
        #expect(pieces.allSatisfy { (1...65_536).contains($0.readableBytes) && $0.storageCapacity <= 65_536 })
        #expect(pieces.reduce(into: ByteBuffer()) { $0.writeImmutableBuffer($1) } == text)
        #expect(places.used == 0 && shedding.requestsInProgress == 0)
    }

    @Test("The buffers of an answer of several keep their order") func severalBuffers() async throws {
        let buffers = ["first", "second", "third"].map { ByteBuffer(string: $0) }
        let record = Record()
        try await ResponseBody(contentsOf: buffers).write(WriterOfPieces(Recorder(record: record)))
        #expect(record.written == buffers + [nil])
    }
}
