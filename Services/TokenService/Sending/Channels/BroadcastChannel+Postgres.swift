package import Postgres
package import PushModel

extension ChannelID: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .text }
    package var postgresValue: PostgresValue { .text(text) }

    package init(_ column: PostgresColumn) throws(PostgresError) {
        guard let id = ChannelID(try String(column)) else { throw column.failure("holds a text that is no channel's id") }
        self = id
    }
}

extension ChannelStorage: PostgresEncodable, PostgresDecodable {}
extension ChannelOperation: PostgresEncodable, PostgresDecodable {}
extension BroadcastChannel.State: PostgresEncodable, PostgresDecodable {}

extension BroadcastChannel {
    /// - Parameter row: Of `channels`.
    init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], environment: try row["environment"], name: try row["name"], appleID: try row["apple_id"],
            storage: try row["storage"], state: try row["state"], creation: try row["creation"], reason: try row["reason"],
            dueAt: try row.milliseconds("due_at"), createdAt: try row.milliseconds("created_at"),
            changedAt: try row.milliseconds("changed_at"))
    }
}

extension ChannelScope {
    /// - Parameter row: Of `channel_scopes`.
    init(_ row: PostgresRow) throws {
        let (command, operation): (PushID?, ChannelOperation?) = (try row["command"], try row["operation"])
        var underWay: UnderWay?
        if let command, let operation {
            underWay = UnderWay(
                id: command, operation: operation, channel: try row["command_channel"], endsAt: try row.milliseconds("command_ends_at"))
        }
        self.init(
            app: try row["app_id"], environment: try row["environment"], listedAt: try row.milliseconds("listed_at"),
            listFrom: try row.milliseconds("list_from"), command: underWay, candidates: try row["candidates"],
            dueAt: try row.milliseconds("due_at"))
    }
}
