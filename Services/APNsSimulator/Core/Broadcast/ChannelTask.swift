/// What a request about channels asks for, once nothing is wrong with it.
enum ChannelTask {
    case create(isStoring: Bool)
    case read(channelID: String)
    case delete(channelID: String)
    case list
    case broadcast(PayloadReader.Reading, channelID: String, expiration: Int64?)
}
