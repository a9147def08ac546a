package enum SecureRandom {
    /// Reads bytes from the kernel's generator (getrandom(2), which Swift's `SystemRandomNumberGenerator` reads): fit for keys and secrets.
    package static func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        for _ in 0..<count { bytes.append(generator.next()) }
        return bytes
    }
}
