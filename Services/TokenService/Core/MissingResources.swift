/// The program was installed without its resources.
struct MissingResources: Error, CustomStringConvertible {
    let bundle: String

    var description: String { "the program's resources are missing: \(bundle).resources must lie beside the executable" }
}
