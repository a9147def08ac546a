/// The action of a correct request about channels.
enum ChannelTask {
    case create(isStoring: Bool)
    case read(channelID: String)
    case delete(channelID: String)
    case list
    case broadcast(PayloadReader.Reading, channelID: String, priority: Int, expiration: Int64?)
}
