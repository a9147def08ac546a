/// Why the simulator could not do what it was asked: something to mend in a setting, a file or a call.
package struct SimulatorError: Error, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// A setting is out of its range or a file does not hold what it should.
        case configuration
        /// A port could not be opened.
        case listening
        /// Not a device token: an even number of hex digits, at most 512.
        case token
        /// A scenario that cannot be read, or a name that none has.
        case scenario
    }

    package let code: Code
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
