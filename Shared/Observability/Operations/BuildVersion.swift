import FoundationEssentials

/// Which build this is.
package struct BuildVersion: Sendable, Equatable, CustomStringConvertible {
    /// The release that this source tree is or becomes.
    package let number: String
    /// The commit of the image's source; `unknown` outside an image.
    package let commit: String

    /// The commit comes from `BUILD_COMMIT`, which the image sets when it is built.
    package static let current = BuildVersion(
        number: "1.0.0-beta.1", commit: ProcessInfo.processInfo.environment["BUILD_COMMIT"].flatMap { $0.isEmpty ? nil : $0 } ?? "unknown")

    package init(number: String, commit: String) {
        self.number = number
        self.commit = commit
    }

    package var description: String { "\(number) (\(commit))" }
}
