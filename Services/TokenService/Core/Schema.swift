import Foundation
package import Postgres

/// The database schema that this program needs: the files in `Migrations`, which travel with the program.
package enum Schema {
    package static func migrator() throws -> Migrator {
        guard let resources = Bundle.module.resourcePath else {
            throw MissingResources()
        }
        return try Migrator(directory: resources + "/Migrations")
    }
}

/// The program was installed without its resources.
struct MissingResources: Error, CustomStringConvertible {
    var description: String { "the program's resources are missing: push_TokenService.resources must lie beside the executable" }
}
