/// The program was installed without its resources.
package struct MissingResources: Error, CustomStringConvertible {
    package let bundle: String

    package init(bundle: String) {
        self.bundle = bundle
    }

    package var description: String { "the program's resources are missing: \(bundle).resources must lie beside the executable" }
}
