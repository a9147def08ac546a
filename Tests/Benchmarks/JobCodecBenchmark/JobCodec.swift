import PushModel

/// One way to write a job as bytes and read it back.
protocol JobCodec {
    var name: String { get }
    func encode(_ job: PushJob) throws -> [UInt8]
    func decode(_ bytes: [UInt8]) throws -> PushJob
}

/// The codec of the services.
struct ProtobufCodec: JobCodec {
    let name = "Protocol Buffers"
    func encode(_ job: PushJob) -> [UInt8] { job.encoded() }
    func decode(_ bytes: [UInt8]) throws -> PushJob { try PushJob(decoding: bytes) }
}

/// A message with a value that no job may have.
struct InvalidJob: Error {
    let field: String

    static func require<Value>(_ value: Value?, _ field: String) throws(InvalidJob) -> Value {
        guard let value else { throw InvalidJob(field: field) }
        return value
    }
}
