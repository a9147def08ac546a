package import PushModel
import StrictJSON
package import TokenServiceKit

/// "Installation X: epochs below n are over", written in the transaction that ended them.
package struct Fence: Equatable, Sendable {
    package let id: Int64
    package let app: AppSlug
    package let installation: PushID
    package let epochsBelow: Int64
    /// UNIX milliseconds.
    package let at: Int64
}

/// Whether every dispatcher can know of an installation's fences.
package enum FenceState: String, Sendable {
    /// It was never fenced, as far as the database knows.
    case none
    /// Its fences stand on the control stream.
    case effective
    /// The broker has not confirmed one yet; the relay goes on trying.
    case pending

    package func combined(with other: FenceState) -> FenceState {
        switch (self, other) {
        case (.pending, _), (_, .pending): .pending
        case (.effective, _), (_, .effective): .effective
        default: .none
        }
    }
}

extension ResponseSchema where Value == FenceState {
    package static var fence: ResponseSchema { ResponseSchema(schema: .fence) { $1.value($0.rawValue) } }
}

extension JSONSchema {
    static let fence = JSONSchema.words(["effective", "pending", "none"]).described(
        "`effective`: every dispatcher can know that the previous owner's epoch is over; `pending`: the broker has not confirmed it yet; `none`: there never was one here. It speaks of this installation: for an installation that a token left, see the answer to the request that moved it; its repetition does not report it."
    )
}
