/// Buffers that the connections of one loop take turns with, so that an idle connection holds none.
struct ConnectionScratch {
    /// The most bytes that one read takes from a socket.
    static let readBytes = 65_536

    var ciphertext = [UInt8](repeating: 0, count: readBytes)
    var plaintext: [UInt8] = []
    var output: [UInt8] = []
}
