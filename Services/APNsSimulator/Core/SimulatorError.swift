/// Why the simulator could not perform a call: a fault in a setting, a file or the call.
package struct SimulatorError: Error, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// A setting is out of its range, or a file has the wrong content.
        case configuration
        /// A port could not be opened.
        case listening
        /// Not a device token: an even number of hex digits, at most 512.
        case token
        /// A scenario that cannot be read, or an unknown name.
        case scenario
    }

    package let code: Code
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
