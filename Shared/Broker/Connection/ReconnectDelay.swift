/// Full jitter: anything from 0.1 s up to a ceiling that doubles to 10 s, so that many clients do not return to a restarted broker in step.
struct ReconnectDelay {
    private static let shortest = Duration.milliseconds(100)
    private static let longest = Duration.seconds(10)
    private var ceiling = Duration.milliseconds(200)

    mutating func next() -> Duration {
        defer { ceiling = min(ceiling * 2, Self.longest) }
        return Self.shortest + (ceiling - Self.shortest) * Double.random(in: 0...1)
    }

    mutating func reset() { ceiling = .milliseconds(200) }
}
