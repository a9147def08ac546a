import Foundation
package import Postgres
import TokenServiceKit

/// The database schema that this program needs: the files in `Migrations`, which travel with the program.
package enum Schema {
    package static func migrator() throws -> Migrator {
        guard let resources = Bundle.module.resourcePath else {
            throw MissingResources(bundle: "push_TokenService")
        }
        return try Migrator(directory: resources + "/Migrations")
    }
}
