import Configuration
import Observability
import Synchronization

/// Notes which settings are read.
final class Reporter: AccessReporter {
    private let names = Mutex<Set<String>>([])

    var variables: Set<String> { names.withLock { $0 } }

    func report(_ event: AccessEvent) {
        let key = event.metadata.key.components.joined(separator: ".")
        names.withLock { _ = $0.insert(ConfigurationError.variable(key)) }
    }
}
